"""Environments with random episode lengths, registered as ``walk:<form>`` in env processes."""

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np

from rollouts.fleet.environments.loader import register

ACTIONS = {
    "choice": gymnasium.spaces.Discrete(3),
    "box": gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32),
    "choices": gymnasium.spaces.MultiDiscrete([2, 3]),
}


class RandomWalk(gymnasium.Env[Any, Any]):
    """Environment with random observations; any step may terminate, truncate or raise."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (3,), np.float32)

    def __init__(self, form: str, *, ends: float = 0.15, raises: float = 0.0) -> None:
        self.action_space = ACTIONS[form]
        self._ends = ends
        self._raises = raises
        self._random = np.random.default_rng()

    def reset(self, *, seed: int | None = None, **_: Any) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            self._random = np.random.default_rng(seed)
        return self._show(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action)
        if self._random.random() < self._raises:
            raise RuntimeError("stumbled")
        terminated, truncated = self._random.random(2) < self._ends / 2
        return self._show(), 1.0, bool(terminated), bool(truncated), {}

    def _show(self) -> Any:
        return self._random.normal(size=3).astype(np.float32)


class CameraWalk(RandomWalk):
    """Random walk with an additional noise image."""

    observation_space = gymnasium.spaces.Dict(
        {
            "image": gymnasium.spaces.Box(0, 255, (64, 64, 3), np.uint8),
            "numbers": RandomWalk.observation_space,
        }
    )

    def _show(self) -> Any:
        image = self._random.integers(0, 256, (64, 64, 3), dtype=np.uint8)
        return {"image": image, "numbers": super()._show()}


def _make(name: str, kwargs: Mapping[str, Any]) -> Any:
    return CameraWalk("choice", **kwargs) if name == "camera" else RandomWalk(name, **kwargs)


register("walk", _make)
