"""Low-rank adapters (LoRA) of a frozen language model, published with PEFT's tensor names.

Source: Hu et al. 2021, "LoRA: Low-Rank Adaptation of Large Language Models", arXiv:2106.09685.
"""

from collections.abc import Mapping
from typing import Self

import torch
from torch import Tensor, nn
from torch.func import functional_call

from rollouts.fleet.engine import checkpoints
from rollouts.fleet.engine.transformer import Transformer
from runs.config.rules.language_config import AdapterConfig

PREFIX = "base_model.model."


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
        tensors = dict(checkpoints.named_tensors(base))
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
        state = checkpoints.joined(self.base, self.merged())
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
        return merged(dict(checkpoints.named_tensors(self.base)), self.adapter(), self._scale)


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
    return dict(checkpoints.named_tensors(model))


def restore(model: PolicyModel, tensors: Mapping[str, Tensor]) -> None:
    """Assign published tensors to a model.

    Raises:
        CheckpointUnreadable: If a tensor is missing or a shape differs.
    """
    if isinstance(model, Transformer):
        checkpoints.assign(model, tensors)
        return
    for name, parameter in model.adapter().items():
        if name not in tensors or tensors[name].shape != parameter.shape:
            raise checkpoints.CheckpointUnreadable(f"{name}: missing, or of another shape")
        with torch.no_grad():
            parameter.copy_(tensors[name])


def whole(model: PolicyModel) -> Transformer:
    """Return a model with the adapter merged into its weights; unchanged without one."""
    if isinstance(model, Transformer):
        return model
    found = Transformer(model.config).eval()
    checkpoints.assign(found, {name: tensor.detach() for name, tensor in model.merged().items()})
    return found
