"""Action distributions over the outputs of a network."""

import math
from collections.abc import Sequence
from typing import Final, Protocol

import torch
from torch import Generator, Tensor

from rollouts.fleet.policies.spaces import Space

LOG_2_PI: Final = math.log(2 * math.pi)
LOG_STD: Final = "log_std"
"""Name of the log standard deviations among the weights."""


class Head(Protocol):
    """Distribution of actions, given the outputs of a network."""

    outputs: int
    """Number of network outputs per observation."""
    is_continuous: bool
    """Whether the network has a `log_std [outputs]` in addition to its outputs."""

    def draw(
        self, outputs: Tensor, log_std: Tensor | None, random: Generator
    ) -> tuple[Tensor, Tensor]:
        """Return actions ``[B, …]`` and their logprobs ``[B]`` for ``outputs [B, outputs]``."""

    def most_likely(self, outputs: Tensor) -> Tensor:
        """Return the most likely actions ``[B, …]`` for ``outputs [B, outputs]``."""

    def logprob(self, outputs: Tensor, log_std: Tensor | None, actions: Tensor) -> Tensor:
        """Return the logprobs ``[…]`` of given actions, for ``outputs […, outputs]``."""


class ChoiceHead:
    """Categorical distribution; the outputs are logits."""

    is_continuous = False

    def __init__(self, choices: int) -> None:
        self.outputs = choices

    def draw(
        self,
        outputs: Tensor,
        log_std: Tensor | None,  # noqa: ARG002 protocol
        random: Generator,
    ) -> tuple[Tensor, Tensor]:
        """Return ``[B]`` int64 choices and their logprobs."""
        logprobs = torch.log_softmax(outputs, dim=-1)
        # The argmax of logprob + Gumbel noise is distributed as the softmax.
        noise = torch.empty_like(logprobs).exponential_(generator=random).log_()
        chosen = (logprobs - noise).argmax(dim=-1)
        return chosen, logprobs.gather(-1, chosen[..., None]).squeeze(-1)

    def most_likely(self, outputs: Tensor) -> Tensor:
        """Return ``[B]`` int64 choices."""
        return outputs.argmax(dim=-1)

    def logprob(
        self,
        outputs: Tensor,
        log_std: Tensor | None,  # noqa: ARG002 protocol
        actions: Tensor,
    ) -> Tensor:
        """Return the logprobs of ``actions […]``."""
        logprobs = torch.log_softmax(outputs, dim=-1)
        return logprobs.gather(-1, actions[..., None].long()).squeeze(-1)


class GaussianHead:
    """Gaussian distribution with a standard deviation independent of the observation.

    A logprob is that of the unclipped action. Fragments store the unclipped action; only the
    environment gets an action clipped to its bounds.
    """

    is_continuous = True

    def __init__(self, shape: Sequence[int]) -> None:
        self.outputs = math.prod(shape)
        self._shape = tuple(shape)

    def draw(
        self, outputs: Tensor, log_std: Tensor | None, random: Generator
    ) -> tuple[Tensor, Tensor]:
        """Return ``[B, *shape]`` float32 actions and their logprobs."""
        spread = _given(log_std)
        noise = torch.empty_like(outputs).normal_(generator=random)
        flat = outputs + noise * spread.exp()
        return flat.reshape(-1, *self._shape), _gaussian(noise, spread)

    def most_likely(self, outputs: Tensor) -> Tensor:
        """Return the means, ``[B, *shape]``."""
        return outputs.reshape(-1, *self._shape)

    def logprob(self, outputs: Tensor, log_std: Tensor | None, actions: Tensor) -> Tensor:
        """Return the logprobs of ``actions […, *shape]``."""
        spread = _given(log_std)
        noise = (actions.reshape(outputs.shape) - outputs) * torch.exp(-spread)
        return _gaussian(noise, spread)


class ChoicesHead:
    """Several independent categorical distributions; the outputs are their logits."""

    is_continuous = False

    def __init__(self, each_choices: Sequence[int]) -> None:
        self.outputs = sum(each_choices)
        self._each = list(each_choices)
        self._heads = [ChoiceHead(choices) for choices in each_choices]

    def draw(
        self, outputs: Tensor, log_std: Tensor | None, random: Generator
    ) -> tuple[Tensor, Tensor]:
        """Return ``[B, n]`` int64 choices and their joint logprobs."""
        logits = outputs.split(self._each, dim=-1)
        drawn = [
            head.draw(one, log_std, random) for head, one in zip(self._heads, logits, strict=True)
        ]
        actions, logprobs = zip(*drawn, strict=True)
        return torch.stack(actions, dim=-1), torch.stack(logprobs).sum(0)

    def most_likely(self, outputs: Tensor) -> Tensor:
        """Return ``[B, n]`` int64 choices."""
        return torch.stack(
            [one.argmax(dim=-1) for one in outputs.split(self._each, dim=-1)], dim=-1
        )

    def logprob(self, outputs: Tensor, log_std: Tensor | None, actions: Tensor) -> Tensor:
        """Return the logprobs of ``actions […, n]``."""
        logits = outputs.split(self._each, dim=-1)
        each = zip(self._heads, logits, actions.unbind(-1), strict=True)
        return torch.stack([head.logprob(one, log_std, chosen) for head, one, chosen in each]).sum(
            0
        )


def head_for(action: Space) -> Head:
    """Return the distribution for an action space."""
    if action.kind == "box":
        return GaussianHead(action.shape)
    if action.kind == "multi_discrete":
        return ChoicesHead(action.each_choices)
    return ChoiceHead(action.choices)


def _gaussian(noise: Tensor, log_std: Tensor) -> Tensor:
    """Return the log density of ``noise`` standard deviations, summed over the last axis."""
    return (-0.5 * (noise.square() + LOG_2_PI) - log_std).sum(-1)


def _given(log_std: Tensor | None) -> Tensor:
    if log_std is None:
        raise ValueError("continuous actions need a log_std")
    return log_std
