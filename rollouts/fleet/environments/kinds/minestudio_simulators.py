"""Adapter of MineStudio's simulator: ``minestudio:<class>``, such as ``minestudio:MinecraftSim``.

The interface is that of ``minestudio.simulator.MinecraftSim`` 1.1: ``reset()`` without a seed,
``step(action)`` with a Dict of ``buttons`` and ``camera`` that it may modify, observations as a
Dict with ``image``, and a single flag for both ends of an episode. Sizes are width and height,
although the simulator's own space has them the other way round.
"""

import importlib
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np

from rollouts.fleet.environments.contract import Environment, UnknownEnvironment, require_registered

SIZES = ("obs_size", "render_size")
BUILT_IN = "MinecraftSim"


class MissingMineStudio(UnknownEnvironment):
    """The simulator is not installed on this machine."""


class MineStudioEnvironment:
    """A simulator with the interface of a Gymnasium environment."""

    def __init__(self, simulator: Any) -> None:
        self._simulator = simulator
        self._image: Any = None
        width, height = simulator.obs_size
        image = gymnasium.spaces.Box(0, 255, (height, width, 3), np.uint8)
        self.observation_space = gymnasium.spaces.Dict({"image": image})
        self.action_space = simulator.action_space

    def reset(self, *, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; a seed selects the world of this and all later episodes."""
        if seed is not None:
            # The simulator accepts a seed only at construction, and passes it on in this way.
            self._simulator.seed = seed
            self._simulator.env.seed(seed)
        obs, extras = self._simulator.reset()
        return self._shown(obs), extras

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Return observation, reward, terminated, truncated and extras.

        The simulator sets both flags on a death or a lost world, which counts as terminated.
        """
        obs, reward, terminated, truncated, extras = self._simulator.step(dict(action))
        ended = bool(terminated)
        return self._shown(obs), float(reward), ended, bool(truncated) and not ended, extras

    def render(self) -> Any:
        """Return the last image, including drawings of callbacks."""
        # Without callbacks, the simulator does not keep its image.
        return self._simulator.render() if self._simulator.callbacks else self._image

    def close(self) -> None:
        """End the game."""
        self._simulator.close()

    def _shown(self, obs: Mapping[str, Any]) -> dict[str, Any]:
        """Return only the entries of the space; callbacks add others."""
        self._image = obs["image"]
        return {name: obs[name] for name in self.observation_space.spaces}


def make(name: str, kwargs: Mapping[str, Any]) -> Environment:
    """Return the simulator class `name` of MineStudio, adapted.

    Args:
        name: A class in ``minestudio.simulator``.
        kwargs: Its arguments; `callbacks` is a configuration for MineStudio's
            ``load_callbacks_from_config``, for rewards, commands and limits.

    Raises:
        MissingMineStudio: If the package is not installed.
        UnknownEnvironment: If the class does not exist, or a class other than `BUILT_IN` is not
            registered on this machine.
        ValueError: If no callback reads the configuration of callbacks.
    """
    if name != BUILT_IN:
        require_registered(f"minestudio:{name}")
    try:
        module = importlib.import_module("minestudio.simulator")
    except ModuleNotFoundError as error:
        raise MissingMineStudio(
            f"minestudio:{name} needs MineStudio ({error}): pip install minestudio, a JDK 8 and "
            "the simulator's engine on every machine that runs environments"
        ) from error
    simulator = getattr(module, name, None)
    if simulator is None:
        raise UnknownEnvironment(f"minestudio.simulator has no {name}")
    given = dict(kwargs)
    for size in SIZES:
        if size in given:
            given[size] = tuple(given[size])
    if "callbacks" in given:
        callbacks = importlib.import_module("minestudio.simulator.callbacks")
        config = given["callbacks"]
        given["callbacks"] = callbacks.load_callbacks_from_config(config)
        if config and not given["callbacks"]:
            keys = config if isinstance(config, str) else ", ".join(config)
            raise ValueError(
                f"kwargs.callbacks: no callback of MineStudio reads {keys}, or a key that it needs "
                "is missing"
            )
    return MineStudioEnvironment(simulator(**given))
