"""Parts of the recorded run that fails."""

import time
from typing import Any

from torch import Tensor

from rollouts.fleet.policies.networks import MlpPolicy


class HangingPolicy(MlpPolicy):
    """Policy that never returns from one of its calls, as after a deadlock."""

    calls = 0
    """Calls of this process; each version of the weights is loaded into a new object."""

    def __init__(self, observation: Any, action: Any, *, after: int) -> None:
        """Initialize the networks.

        Args:
            observation: Observation space.
            action: Action space.
            after: Number of calls that return, in a process.
        """
        super().__init__(observation.shape[0], action.choices, [64, 64])
        self._after = after

    def initial_state(self, _: int) -> dict[str, Tensor]:
        """Return no state."""
        return {}

    def forward(  # type: ignore[override]
        self, obs: Tensor, state: dict[str, Tensor], _: Tensor
    ) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """Return logits and values, or never."""
        HangingPolicy.calls += 1
        while HangingPolicy.calls > self._after:
            time.sleep(60)
        logits, values = super().forward(obs.float())
        return logits, values, state
