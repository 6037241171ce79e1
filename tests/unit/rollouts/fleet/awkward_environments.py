"""Environments that a check must refuse, registered as ``module:awkward_environments:<name>``."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, Text


class Plain(gymnasium.Env[Any, Any]):
    """Environment with episodes of five steps."""

    observation_space: Any = Box(-1e6, 1e6, (4,), np.float32)
    action_space: Any = Discrete(2)
    reward: Any = 1.0

    def __init__(self) -> None:
        self.count = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:  # noqa: ARG002
        self.count = 0
        return self.obs(), {}

    def step(self, _: Any) -> Any:
        self.count += 1
        return self.obs(), self.reward, self.count >= 5, False, {}

    def obs(self) -> Any:
        return np.full(4, self.count, np.float32)


class SeedlessReset(Plain):
    """Environment of old Gym: reset takes no seed."""

    def reset(self) -> Any:  # type: ignore[override]
        return self.obs()


class OnlyObservation(Plain):
    """Environment of old Gym: reset returns only the observation."""

    def reset(self, *, seed: int | None = None, **_: Any) -> Any:  # noqa: ARG002
        return self.obs()


class TwoNumbers(OnlyObservation):
    """Environment of old Gym whose observation could be unpacked into two values."""

    observation_space = Box(-1, 1, (2,), np.float32)

    def obs(self) -> Any:
        return np.zeros(2, np.float32)


class FourValues(Plain):
    """Environment of old Gym: step returns four values."""

    def step(self, action: Any) -> Any:
        return super().step(action)[:4]


class WithText(Plain):
    """Environment with a part that cannot be represented."""

    observation_space = Dict(x=Box(-1, 1, (2,)), inner=Dict(text=Text(8)))


class LosesPart(Plain):
    """Environment that leaves a part of its observation out from the second one on."""

    observation_space = Dict(goal=Box(-1, 1, (2,)), x=Box(-1, 1, (2,)))

    def obs(self) -> Any:
        whole = {"goal": np.zeros(2, np.float32), "x": np.zeros(2, np.float32)}
        return whole if not self.count else {"x": whole["x"]}


class RewardArray(Plain):
    """Environment whose reward is an array of two."""

    reward = np.ones(2)


class RewardText(Plain):
    """Environment whose reward is a text."""

    reward = "1.0"


class HugeReward(Plain):
    """Environment whose reward is infinite as a float32."""

    reward = 1e39


class NotFinite(Plain):
    """Environment with a NaN in its third step."""

    def obs(self) -> Any:
        return np.full(4, np.nan if self.count == 3 else 0, np.float32)


class RaisesLate(Plain):
    """Environment that raises in its fourth step."""

    def step(self, action: Any) -> Any:
        if self.count == 3:
            raise KeyError("goal")
        return super().step(action)


class Grey(Plain):
    """Environment with images without channels."""

    observation_space = Box(0, 255, (84, 84), np.uint8)

    def obs(self) -> Any:
        return np.zeros((84, 84), np.uint8)


class Large(Plain):
    """Environment with observations of 3 MB."""

    observation_space = Box(0, 255, (512, 512, 3), np.float32)

    def obs(self) -> Any:
        return np.zeros((512, 512, 3), np.float32)


def vector() -> Any:
    """Return a vector environment."""
    return gymnasium.vector.SyncVectorEnv([Plain, Plain])
