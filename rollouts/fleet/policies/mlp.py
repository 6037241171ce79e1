"""Act with two multi-layer perceptrons: one chooses, one estimates."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rollouts.fleet.acting import State
from rollouts.fleet.environments import Space
from rollouts.fleet.policies.base import TorchPolicy


def tower(sizes: Sequence[int], gain: float) -> nn.Sequential:
    """Return a tanh MLP with orthogonal weights.

    Args:
        sizes: Inputs, units of each hidden layer, outputs.
        gain: Scale of the last layer's weights.
    """
    layers: list[nn.Module] = []
    for index, (inputs, units) in enumerate(pairwise(sizes)):
        is_last = index == len(sizes) - 2
        linear = nn.Linear(inputs, units)
        nn.init.orthogonal_(linear.weight, gain if is_last else math.sqrt(2))
        nn.init.zeros_(linear.bias)
        layers += [linear] if is_last else [linear, nn.Tanh()]
    return nn.Sequential(*layers)


class MlpPolicy(nn.Module):
    """Separate policy and value towers.

    Its tensors are ``policy_net.<2i>.{weight,bias}`` and ``value_net.<2i>.{weight,bias}`` for
    layer i, and ``log_std`` where actions are continuous.
    """

    def __init__(
        self,
        observation_size: int,
        action_size: int,
        hidden_sizes: Sequence[int],
        *,
        is_continuous: bool = False,
    ) -> None:
        """Begin with orthogonal weights.

        Args:
            observation_size: Numbers in one flat observation.
            action_size: Choices, or numbers in one flat action.
            hidden_sizes: Units of each hidden layer of both towers.
            is_continuous: Actions are drawn from a Gaussian with a spread of its own.
        """
        super().__init__()
        self.policy_net = tower([observation_size, *hidden_sizes, action_size], 0.01)
        self.value_net = tower([observation_size, *hidden_sizes, 1], 1.0)
        if is_continuous:
            self.log_std = nn.Parameter(torch.zeros(action_size))

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits or means ``[…, action_size]`` and values ``[…]``."""
        return self.policy_net(obs), self.value_net(obs).squeeze(-1)


class TorchMlp(TorchPolicy):
    """An :class:`MlpPolicy` at work in a rollout worker."""

    def __init__(
        self,
        observation: Space,
        action: Space,
        *,
        hidden_sizes: Sequence[int],
        seed: int,
        device: str = "auto",
    ) -> None:
        """Have no weights yet.

        Args:
            observation: Form of observations; boxes are flattened.
            action: Form of actions.
            hidden_sizes: Units of each hidden layer.
            seed: Of the draws.
            device: ``auto`` takes a GPU if there is one.
        """
        with torch.device("meta"):
            module = MlpPolicy(
                observation.size, action.size, hidden_sizes, is_continuous=action.kind == "box"
            )
        super().__init__(module, observation=observation, action=action, seed=seed, device=device)

    def _run(
        self,
        module: nn.Module,
        obs: NDArray[Any],
        state: State,  # noqa: ARG002 the base's
        first: NDArray[np.bool_],  # noqa: ARG002 the base's
    ) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        outputs, values = module(self._vectors(obs))
        return outputs, values, {}
