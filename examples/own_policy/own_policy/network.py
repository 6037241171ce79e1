"""An LSTM policy for flat observations and one discrete action.

A fleet uses it as `policy.kind: module:own_policy.network:LstmPolicy`, or as `package:lstm` where
this package is installed. Both need torch only.
"""

from typing import Any

import torch
from torch import Tensor, nn


class LstmPolicy(nn.Module):
    """An LSTM cell between a dense layer and two heads."""

    def __init__(self, observation: Any, action: Any, *, units: int = 64) -> None:
        """Initialize the weights.

        Args:
            observation: Observation space; its `shape` is used.
            action: Action space; its number of `choices` is used.
            units: Units of the dense layer and of the LSTM.
        """
        super().__init__()
        self.units = units
        self.encoder = nn.Sequential(nn.Linear(observation.shape[0], units), nn.Tanh())
        self.memory = nn.LSTMCell(units, units)
        self.policy_head = nn.Linear(units, action.choices)
        self.value_head = nn.Linear(units, 1)
        nn.init.orthogonal_(self.policy_head.weight, 0.01)
        nn.init.zeros_(self.policy_head.bias)

    def initial_state(self, batch: int) -> dict[str, Tensor]:
        """Return the state before the first step of an episode, ``[batch, units]`` each."""
        return {"h": torch.zeros(batch, self.units), "c": torch.zeros(batch, self.units)}

    def forward(
        self, obs: Tensor, state: dict[str, Tensor], first: Tensor
    ) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """Take one step.

        Args:
            obs: ``[B, numbers]`` float32.
            state: State before the step.
            first: ``[B]`` bool; the state of a step that begins an episode is reset.

        Returns:
            Logits ``[B, choices]``, values ``[B]`` and the state after the step.
        """
        going_on = (~first).float()[:, None]
        before = (state["h"] * going_on, state["c"] * going_on)
        h, c = self.memory(self.encoder(obs.float()), before)
        return self.policy_head(h), self.value_head(h).squeeze(-1), {"h": h, "c": c}
