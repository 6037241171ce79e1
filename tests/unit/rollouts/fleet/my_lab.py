"""Module of an administrator with a class that a spec can name."""

from typing import Any

import gymnasium
import numpy as np


class Maze(gymnasium.Env[Any, Any]):
    """Environment with a single room."""

    observation_space = gymnasium.spaces.Box(0, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, *, doors: int = 1) -> None:
        self.doors = doors

    def reset(self, **_: Any) -> tuple[Any, dict[str, Any]]:
        return np.zeros(2, np.float32), {}

    def step(self, _: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return np.zeros(2, np.float32), 1.0, True, False, {}
