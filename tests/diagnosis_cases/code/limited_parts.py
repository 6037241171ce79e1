"""Environments and policies whose speed or stability is limited on purpose."""

import os
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from torch import Tensor, nn


class Paced(gymnasium.Env[Any, Any]):
    """Environment with a fixed duration of a step, which may end its process."""

    observation_space = gymnasium.spaces.Box(-1e6, 1e6, (4,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(
        self, *, seconds: float = 0.0, exits_at: int = 0, slow_lock: str = "", slow_factor: int = 10
    ) -> None:
        """Initialize the environment.

        Args:
            seconds: Duration of a step.
            exits_at: Number of steps after which the process ends; 0 for never.
            slow_lock: Path of a file; the environments of the process that creates it are slower.
            slow_factor: Factor of the duration in that process.
        """
        self._seconds = seconds * (slow_factor if slow_lock and _holds(Path(slow_lock)) else 1)
        self._exits_at = exits_at
        self._steps = 0

    def reset(self, *, seed: int | None = None, **_: Any) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return np.zeros(4, np.float32), {}

    def step(self, _: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        time.sleep(self._seconds)
        self._steps += 1
        if self._steps == self._exits_at:
            os._exit(1)
        is_over = self._steps % 20 == 0
        return np.full(4, self._steps % 20, np.float32), 1.0, is_over, False, {}


def _holds(lock: Path) -> bool:
    """Return whether this process created the file."""
    try:
        with lock.open("x") as file:
            file.write(str(os.getpid()))
    except FileExistsError:
        return lock.read_text() == str(os.getpid())
    return True


class SlowPolicy(nn.Module):
    """Policy with a fixed duration of a forward pass, and of loading weights."""

    def __init__(
        self, observation: Any, action: Any, *, forward: float = 0.0, load: float = 0.0
    ) -> None:
        super().__init__()
        self.seconds, self.load_seconds = forward, load
        self.policy_head = nn.Linear(observation.shape[0], action.choices)
        self.value_head = nn.Linear(observation.shape[0], 1)

    def initial_state(self, _: int) -> dict[str, Tensor]:
        return {}

    def forward(
        self, obs: Tensor, state: dict[str, Tensor], _: Tensor
    ) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        time.sleep(self.seconds)
        return self.policy_head(obs.float()), self.value_head(obs.float()).squeeze(-1), state

    def load_state_dict(self, state_dict: Any, *args: Any, **kwargs: Any) -> Any:
        # The initial weights are zeros: only later versions take long.
        if any(torch.count_nonzero(value) for value in state_dict.values()):
            time.sleep(self.load_seconds)
        return super().load_state_dict(state_dict, *args, **kwargs)
