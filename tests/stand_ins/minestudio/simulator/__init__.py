"""NOT MineStudio's simulator: a stand-in with the interface of `MinecraftSim` 1.1."""

from typing import Any

import gymnasium
import numpy as np


class _Game:
    """Replacement for the game: `env` of the simulator."""

    def __init__(self) -> None:
        self.seeds: list[int] = []

    def seed(self, seed: int) -> None:
        self.seeds.append(seed)


class MinecraftSim(gymnasium.Env[Any, Any]):
    """Simulator that shows noise and ends after `length` steps; interface as in 1.1."""

    def __init__(
        self,
        action_type: str = "agent",
        obs_size: tuple[int, int] = (224, 224),
        render_size: tuple[int, int] = (640, 360),
        seed: int = 0,
        callbacks: list[Any] = [],  # noqa: B006 as the real one has it
        length: int = 6,
        **_: Any,
    ) -> None:
        assert isinstance(obs_size, tuple)
        assert isinstance(render_size, tuple)
        self.action_type = action_type
        self.obs_size = obs_size
        self.seed = seed
        self.callbacks = callbacks
        self.env = _Game()
        self.env.seed(seed)
        self._length = length
        self._at = 0

    def reset(self) -> tuple[Any, dict[str, Any]]:  # type: ignore[override]
        self._at = 0
        return self._shown(), {"life_stats": {}}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), action
        if self.action_type == "agent":
            action.pop("buttons")
            action.pop("camera")
        self._at += 1
        done = self._at == self._length
        reward = sum(callback["reward"] for callback in self.callbacks)
        return self._shown(), reward, done, done, {"life_stats": {}}

    def render(self) -> Any:
        assert self.callbacks, "the real one has an image only with callbacks"
        return self._shown()["image"]

    def close(self) -> None:
        """Do nothing, as there is no game."""

    def _shown(self) -> dict[str, Any]:
        random = np.random.default_rng(self.env.seeds[-1] + self._at)
        width, height = self.obs_size
        return {"image": random.integers(0, 256, (height, width, 3), dtype=np.uint8)}

    @property
    def action_space(self) -> Any:
        if self.action_type == "agent":
            return gymnasium.spaces.Dict(
                {
                    "buttons": gymnasium.spaces.MultiDiscrete([8641]),
                    "camera": gymnasium.spaces.MultiDiscrete([121]),
                }
            )
        return gymnasium.spaces.Dict(
            {
                "attack": gymnasium.spaces.Discrete(2),
                "hotbar.1": gymnasium.spaces.Discrete(2),
                "camera": gymnasium.spaces.Box(-180, 180, (2,), np.float32),
            }
        )

    @property
    def observation_space(self) -> Any:
        height, width = self.obs_size  # as in the real one, which returns images of the other shape
        return gymnasium.spaces.Dict(
            {"image": gymnasium.spaces.Box(0, 255, (height, width, 3), np.uint8)}
        )
