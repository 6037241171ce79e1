"""Load and save transformers as safetensors, with the tensor names of Hugging Face.

A folder contains ``config.json`` and ``model.safetensors``, or several files listed in
``model.safetensors.index.json``. Llama, Qwen 2 and Qwen 3 checkpoints are read unchanged.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Self

import msgspec
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.func import functional_call

from rollouts.fleet.engine.transformer import Transformer, TransformerConfig, rotations
from runs.config.rules.language_config import AdapterConfig

ARCHITECTURES: Final = {
    "LlamaForCausalLM": {},
    "Qwen2ForCausalLM": {"attention_bias": True},
    "Qwen3ForCausalLM": {"qk_norm": True},
}
_PER_LAYER: Final[dict[str, tuple[str, ...]]] = {
    "attention_norm.weight": ("input_layernorm.weight",),
    "attention.qkv.weight": tuple(f"self_attn.{part}_proj.weight" for part in "qkv"),
    "attention.qkv.bias": tuple(f"self_attn.{part}_proj.bias" for part in "qkv"),
    "attention.query_norm.weight": ("self_attn.q_norm.weight",),
    "attention.key_norm.weight": ("self_attn.k_norm.weight",),
    "attention.out.weight": ("self_attn.o_proj.weight",),
    "feed_norm.weight": ("post_attention_layernorm.weight",),
    "feed.gate_up.weight": ("mlp.gate_proj.weight", "mlp.up_proj.weight"),
    "feed.down.weight": ("mlp.down_proj.weight",),
}
_OUTSIDE: Final[dict[str, tuple[str, ...]]] = {
    "embed.weight": ("model.embed_tokens.weight",),
    "norm.weight": ("model.norm.weight",),
    "head.weight": ("lm_head.weight",),
}
PREFIX = "base_model.model."


class CheckpointUnreadable(ValueError):
    """The checkpoint of a transformer is invalid or unsupported; the text names the problem."""


def load(folder: Path, *, device: str = "cpu", dtype: torch.dtype | None = None) -> Transformer:
    """Return the transformer in `folder`.

    Args:
        folder: Folder with ``config.json`` and safetensors files.
        device: Device of the model.
        dtype: Type of the weights; None for the checkpoint's own.

    Raises:
        CheckpointUnreadable: If a file or tensor is missing, or a shape differs.
    """
    config = read_config(folder / "config.json")
    tensors = read_tensors(folder)
    with torch.device("meta"):
        model = Transformer(config)
    assign(model, tensors, device=device, dtype=dtype)
    return model.eval()


def read_tensors(folder: Path) -> dict[str, Tensor]:
    """Return the weights in `folder` under Hugging Face's names.

    Raises:
        CheckpointUnreadable: If a file is missing or damaged.
    """
    index = folder / "model.safetensors.index.json"
    names = {"model.safetensors"}
    tensors: dict[str, Tensor] = {}
    try:
        if index.exists():
            names = set(json.loads(index.read_text())["weight_map"].values())
        for name in sorted(names):
            # An index may only name files in its own folder.
            tensors |= load_file(folder / Path(name).name)
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise CheckpointUnreadable(f"{folder.name}: {error}") from error
    return tensors


def save(model: Transformer, folder: Path) -> None:
    """Write a transformer to `folder`; each file is replaced atomically."""
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / "model.safetensors.part"
    save_file(dict(named_tensors(model)), part, metadata={"format": "pt"})
    part.replace(folder / "model.safetensors")
    part = folder / "config.json.part"
    part.write_text(json.dumps(described(model.config), indent=2))
    part.replace(folder / "config.json")


def named_tensors(model: Transformer) -> Iterator[tuple[str, Tensor]]:
    """Return the weights under Hugging Face's names, as trainers publish them."""
    state = model.state_dict()
    for ours, theirs in _names(model):
        weight = state[ours]
        pieces = weight.split(_sizes(model.config, ours, weight.shape[0]))
        for name, piece in zip(theirs, pieces, strict=True):
            yield name, piece.contiguous()


def assign(
    model: Transformer,
    tensors: Mapping[str, Tensor],
    *,
    device: str = "cpu",
    dtype: torch.dtype | None = None,
) -> None:
    """Assign the weights in `tensors` (Hugging Face's names) to `model`; ignore other tensors.

    Raises:
        CheckpointUnreadable: If a tensor is missing or a shape differs; nothing is assigned.
    """
    state = {
        name: tensor.to(device=device, dtype=dtype or tensor.dtype, copy=True)
        for name, tensor in joined(model, tensors).items()
    }
    if model.config.tie_word_embeddings:
        state["head.weight"] = state["embed.weight"]
    model.load_state_dict(state, assign=True)
    if model.config.tie_word_embeddings:
        model.head.weight = model.embed.weight
    if model.cosines.is_meta or str(model.cosines.device) != str(torch.device(device)):
        model.cosines, model.sines = (part.to(device) for part in rotations(model.config))


def joined(model: Transformer, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights in `tensors` (Hugging Face's names) under the names of `model`.

    Gradients reach the tensors. Tied weights are contained once.

    Raises:
        CheckpointUnreadable: If a tensor is missing or a shape differs.
    """
    expected = model.state_dict()
    missing = [name for _, theirs in _names(model) for name in theirs if name not in tensors]
    if missing:
        raise CheckpointUnreadable(f"tensors are missing: {', '.join(missing[:8])}")
    state: dict[str, Tensor] = {}
    for ours, theirs in _names(model):
        pieces = [tensors[name] for name in theirs]
        sizes = _sizes(model.config, ours, expected[ours].shape[0])
        for name, piece, rows in zip(theirs, pieces, sizes, strict=True):
            shape = (rows, *expected[ours].shape[1:])
            if tuple(piece.shape) != shape:
                raise CheckpointUnreadable(f"{name}: shape {tuple(piece.shape)}, expected {shape}")
        state[ours] = torch.cat(pieces) if len(pieces) > 1 else pieces[0]
    return state


def read_config(path: Path) -> TransformerConfig:
    """Return the shapes in a ``config.json``.

    Raises:
        CheckpointUnreadable: If the architecture is unsupported, or a field is missing.
    """
    try:
        raw: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise CheckpointUnreadable(f"{path.name}: {error}") from error
    architecture = (raw.get("architectures") or ["LlamaForCausalLM"])[0]
    if architecture not in ARCHITECTURES:
        known = ", ".join(ARCHITECTURES)
        raise CheckpointUnreadable(f"architectures: {architecture} is not one of {known}")
    scaling = raw.get("rope_scaling")
    if scaling:
        raise CheckpointUnreadable(f"rope_scaling: {scaling} is not supported")
    if "num_attention_heads" in raw:
        raw.setdefault("num_key_value_heads", raw["num_attention_heads"])
        raw["head_dim"] = raw.get("head_dim") or raw["hidden_size"] // raw["num_attention_heads"]
    raw["rope_theta"] = (raw.get("rope_parameters") or raw).get("rope_theta", 10_000.0)
    raw.setdefault("tie_word_embeddings", False)
    try:
        return msgspec.convert(raw | ARCHITECTURES[architecture], TransformerConfig)
    except msgspec.ValidationError as error:
        raise CheckpointUnreadable(f"{path.name}: {error}") from error


def described(config: TransformerConfig) -> dict[str, Any]:
    """Return the ``config.json`` of a transformer."""
    architecture = "Qwen2ForCausalLM" if config.attention_bias else "LlamaForCausalLM"
    architecture = "Qwen3ForCausalLM" if config.qk_norm else architecture
    kind = architecture.removesuffix("ForCausalLM").lower()
    shapes = msgspec.to_builtins(config)
    return {"architectures": [architecture], "model_type": kind, "hidden_act": "silu"} | shapes


def _names(model: Transformer) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Return each weight's own name, and the names of its pieces in a checkpoint."""
    config = model.config
    for ours, theirs in _OUTSIDE.items():
        if not (ours == "head.weight" and config.tie_word_embeddings):
            yield ours, theirs
    for index in range(config.num_hidden_layers):
        for ours, theirs in _PER_LAYER.items():
            if ours.endswith("qkv.bias") and not config.attention_bias:
                continue
            if ours.endswith(("query_norm.weight", "key_norm.weight")) and not config.qk_norm:
                continue
            yield f"layers.{index}.{ours}", tuple(f"model.layers.{index}.{one}" for one in theirs)


def _sizes(config: TransformerConfig, ours: str, rows: int) -> list[int]:
    if ".qkv." in ours:
        kv = config.num_key_value_heads * config.head_dim
        return [config.num_attention_heads * config.head_dim, kv, kv]
    return [rows // 2] * 2 if ".gate_up." in ours else [rows]


class AdaptedModel(nn.Module):
    """A frozen model whose adapted layers have the weights W + alpha / rank · B · A."""

    def __init__(self, base: Transformer, adapter: AdapterConfig) -> None:
        """Add an adapter without effect: B is 0.

        Args:
            base: Model to adapt; its own weights are trained no more.
            adapter: Rank, alpha and adapted layers.
        """
        super().__init__()
        self.base, self.config, self.embed = base.requires_grad_(False), base.config, base.embed
        self._scale = adapter.alpha / adapter.rank
        tensors = dict(named_tensors(base))
        modules = [name.removesuffix(".weight") for name in tensors]
        self._modules_adapted = [
            module for module in modules if module.rpartition(".")[2] in adapter.target_modules
        ]
        shapes = [tensors[f"{module}.weight"].shape for module in self._modules_adapted]
        kind = {"dtype": base.embed.weight.dtype, "device": base.embed.weight.device}
        self.lora_a = nn.ParameterList(
            torch.randn(adapter.rank, columns, **kind) / columns**0.5 for _, columns in shapes
        )
        self.lora_b = nn.ParameterList(
            torch.zeros(rows, adapter.rank, **kind) for rows, _ in shapes
        )

    @classmethod
    def around(cls, base: Transformer, adapter: AdapterConfig) -> "Self | Transformer":
        """Return the model with an adapter; unchanged for rank 0."""
        return cls(base, adapter) if adapter.rank else base

    def forward(self, tokens: Tensor) -> Tensor:
        """Return logits ``[B, T, vocab]`` for ``tokens [B, T]``."""
        state = joined(self.base, self.merged())
        logits: Tensor = functional_call(self.base, state, (tokens,))
        return logits

    def adapter(self) -> dict[str, Tensor]:
        """Return the adapter's tensors by PEFT's names."""
        return {
            f"{PREFIX}{module}.lora_{part}.weight": weight
            for part, weights in (("A", self.lora_a), ("B", self.lora_b))
            for module, weight in zip(self._modules_adapted, weights, strict=True)
        }

    def merged(self) -> dict[str, Tensor]:
        """Return all weights by Hugging Face's names, with the adapter."""
        return merged(dict(named_tensors(self.base)), self.adapter(), self._scale)


PolicyModel = Transformer | AdaptedModel


def merged(
    base: Mapping[str, Tensor], adapter: Mapping[str, Tensor], scale: float
) -> dict[str, Tensor]:
    """Return the weights of a model with an adapter.

    Args:
        base: The model's tensors by Hugging Face's names.
        adapter: The adapter's tensors by PEFT's names.
        scale: alpha / rank.
    """
    found = dict(base)
    for name, first in adapter.items():
        if name.endswith(".lora_A.weight"):
            module = name.removeprefix(PREFIX).removesuffix(".lora_A.weight")
            second = adapter[f"{PREFIX}{module}.lora_B.weight"]
            found[f"{module}.weight"] = base[f"{module}.weight"] + scale * second @ first
    return found


def published_tensors(model: PolicyModel) -> dict[str, Tensor]:
    """Return what a trainer publishes: the adapter, or all weights."""
    if isinstance(model, AdaptedModel):
        return {name: tensor.detach() for name, tensor in model.adapter().items()}
    return dict(named_tensors(model))


def restore(model: PolicyModel, tensors: Mapping[str, Tensor]) -> None:
    """Assign published tensors to a model.

    Raises:
        CheckpointUnreadable: If a tensor is missing or a shape differs.
    """
    if isinstance(model, Transformer):
        assign(model, tensors)
        return
    for name, parameter in model.adapter().items():
        if name not in tensors or tensors[name].shape != parameter.shape:
            raise CheckpointUnreadable(f"{name}: missing, or of another shape")
        with torch.no_grad():
            parameter.copy_(tensors[name])


def whole(model: PolicyModel) -> Transformer:
    """Return a model with the adapter merged into its weights; unchanged without one."""
    if isinstance(model, Transformer):
        return model
    found = Transformer(model.config).eval()
    assign(found, {name: tensor.detach() for name, tensor in model.merged().items()})
    return found
