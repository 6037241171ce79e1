"""Act with two multi-layer perceptrons: one chooses, one estimates."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rollouts.fleet.policies.base import TorchPolicy
from rollouts.fleet.policies.heads import head_for
from rollouts.fleet.policies.inputs import vectors
from rollouts.fleet.policies.layers import tower
from rollouts.fleet.policies.policy_protocol import State
from rollouts.fleet.policies.spaces import Space


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
            observation: Form of observations; they are flattened.
            action: Form of actions.
            hidden_sizes: Units of each hidden layer.
            seed: Of the draws.
            device: ``auto`` takes a GPU if there is one.
        """
        head = head_for(action)
        with torch.device("meta"):
            module = MlpPolicy(
                observation.size, head.outputs, hidden_sizes, is_continuous=head.is_continuous
            )
        super().__init__(module, observation=observation, action=action, seed=seed, device=device)

    def _run(
        self,
        module: nn.Module,
        obs: NDArray[Any],
        state: State,  # noqa: ARG002 the base's
        first: NDArray[np.bool_],  # noqa: ARG002 the base's
    ) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        outputs, values = module(vectors(self._observation, obs).to(self._device))
        return outputs, values, {}
