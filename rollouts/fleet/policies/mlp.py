"""Policy with two multi-layer perceptrons: one for actions, one for values."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rollouts.fleet.policies.base import TorchPolicy
from rollouts.fleet.policies.heads import head_for
from rollouts.fleet.policies.inputs import vectors
from rollouts.fleet.policies.layers import tanh_mlp
from rollouts.fleet.policies.policy_protocol import State
from rollouts.fleet.policies.spaces import Space


class MlpPolicy(nn.Module):
    """Separate policy and value networks.

    Its tensors are ``policy_net.<2i>.{weight,bias}`` and ``value_net.<2i>.{weight,bias}`` for
    layer i, and ``log_std`` for continuous actions.
    """

    def __init__(
        self,
        observation_size: int,
        action_size: int,
        hidden_sizes: Sequence[int],
        *,
        is_continuous: bool = False,
    ) -> None:
        """Initialize with orthogonal weights.

        Args:
            observation_size: Size of a flat observation.
            action_size: Number of choices, or size of a flat action.
            hidden_sizes: Units of each hidden layer of both networks.
            is_continuous: Whether actions follow a Gaussian with a learned standard deviation.
        """
        super().__init__()
        self.policy_net = tanh_mlp([observation_size, *hidden_sizes, action_size], 0.01)
        self.value_net = tanh_mlp([observation_size, *hidden_sizes, 1], 1.0)
        if is_continuous:
            self.log_std = nn.Parameter(torch.zeros(action_size))

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits or means ``[…, action_size]`` and values ``[…]``."""
        return self.policy_net(obs), self.value_net(obs).squeeze(-1)


class TorchMlp(TorchPolicy):
    """An :class:`MlpPolicy` in a rollout worker."""

    def __init__(
        self,
        observation: Space,
        action: Space,
        *,
        hidden_sizes: Sequence[int],
        seed: int,
        device: str = "auto",
        precision: str = "float32",
    ) -> None:
        """Set up the policy without weights.

        Args:
            observation: Observation space; observations are flattened.
            action: Action space.
            hidden_sizes: Units of each hidden layer.
            seed: Random seed of the actions.
            device: ``auto`` uses a GPU if there is one.
            precision: Type in which the network computes.
        """
        head = head_for(action)
        with torch.device("meta"):
            module = MlpPolicy(
                observation.size, head.outputs, hidden_sizes, is_continuous=head.is_continuous
            )
        super().__init__(
            module,
            observation=observation,
            action=action,
            seed=seed,
            device=device,
            precision=precision,
        )

    def _run(
        self,
        module: nn.Module,
        obs: NDArray[Any],
        state: State,  # noqa: ARG002 base class
        first: NDArray[np.bool_],  # noqa: ARG002 base class
    ) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        outputs, values = module(vectors(self._observation, obs).to(self._device))
        return outputs, values, {}
