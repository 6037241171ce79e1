"""LoRA adapters in PEFT's layout: expected shapes, and files of one version."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from rollouts.fleet.inference.checkpoint_files import write_whole
from rollouts.fleet.inference.weights import encoded
from rollouts.fleet.policies.policy_protocol import Shape, WeightsDoNotFit
from runs.config.rules.language_config import AdapterConfig

WEIGHTS: Final = "adapter_model.safetensors"
CONFIG: Final = "adapter_config.json"
PREFIX: Final = "base_model.model."
"""Prefix of the names of tensors in PEFT's files."""


def adapter_shapes(base: Mapping[str, Shape], adapter: AdapterConfig) -> dict[str, Shape]:
    """Return the shapes by name of an adapter's tensors.

    Args:
        base: Shapes by name of the adapted checkpoint.
        adapter: Rank and adapted layers.

    Raises:
        WeightsDoNotFit: If the checkpoint lacks an adapted layer.
    """
    found: dict[str, Shape] = {}
    adapted = set[str]()
    for name, shape in base.items():
        module = name.removesuffix(".weight")
        layer = module.rpartition(".")[2]
        if module == name or layer not in adapter.target_modules or len(shape) != 2:
            continue
        rows, columns = shape
        found[f"{PREFIX}{module}.lora_A.weight"] = (adapter.rank, columns)
        found[f"{PREFIX}{module}.lora_B.weight"] = (rows, adapter.rank)
        adapted.add(layer)
    if missing := sorted(set(adapter.target_modules) - adapted):
        raise WeightsDoNotFit(
            f"language.model.adapter.target_modules: the served model has no layer {missing[0]}"
        )
    return found


def write_adapter(folder: Path, tensors: Mapping[str, Any], adapter: AdapterConfig) -> None:
    """Write an adapter that vLLM, SGLang and PEFT can load, unless the folder already has it.

    Args:
        folder: Folder of one version.
        tensors: Tensors with PEFT's names.
        adapter: Rank, alpha and adapted layers.

    Raises:
        OSError: If a file cannot be written.
    """
    if (folder / CONFIG).exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / WEIGHTS, encoded(tensors))
    described = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "r": adapter.rank,
        "lora_alpha": adapter.alpha,
        "target_modules": adapter.target_modules,
        "bias": "none",
    }
    write_whole(folder / CONFIG, msgspec.json.encode(described))
