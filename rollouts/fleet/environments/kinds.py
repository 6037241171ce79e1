"""Environments of Gymnasium, of Rolldeck and of MineStudio, and registered classes.

The interface of a simulator is that of ``minestudio.simulator.MinecraftSim`` 1.1: ``reset()``
without a seed, ``step(action)`` with a Dict of ``buttons`` and ``camera`` that it may modify,
observations as a Dict with ``image``, and a single flag for both ends of an episode. Sizes are
width and height, although the simulator's own space has them the other way round.
"""

import importlib
from collections.abc import Mapping
from typing import Any, Final

import gymnasium
import numpy as np
from gymnasium.envs.classic_control.cartpole import CartPoleEnv
from gymnasium.utils import seeding
from numpy.typing import NDArray

from rollouts.fleet.environments.contract import Environment, UnknownEnvironment, require_registered

RESET_LIMIT: Final = 0.05
"""Maximum absolute value of each of the four numbers at the start of an episode."""
BRIGHT: Final = 255
SIZES: Final = ("obs_size", "render_size")
BUILT_IN: Final = "MinecraftSim"


def make_gymnasium(name: str, kwargs: Mapping[str, Any]) -> Environment:
    """Return the environment with the id `name`.

    Raises:
        UnknownEnvironment: If the id names a module, which Gymnasium would import, and the spec is
            not registered by an administrator.
    """
    if ":" in name:
        require_registered(f"gymnasium:{name}")
    # The checker doubles the cost of a step; specs are checked when a run is created.
    environment: Environment = gymnasium.make(name, disable_env_checker=True, **kwargs)
    return environment


def make_registered(name: str, kwargs: Mapping[str, Any]) -> Environment:
    """Return an instance of the class `name`, given as ``<import.path>:<Class>``.

    Importing a module runs its code, so a run's configuration alone cannot select one. The spec
    must be in ``ROLLDECK_ENVIRONMENTS`` of the machine that imports it.

    Raises:
        UnknownEnvironment: If it is not registered on this machine, or does not exist.
    """
    spec = f"module:{name}"
    require_registered(spec)
    path, _, class_name = name.partition(":")
    try:
        found = getattr(importlib.import_module(path), class_name)
    except (ImportError, AttributeError) as error:
        raise UnknownEnvironment(f"{spec} is registered, but {error}") from error
    environment: Environment = found(**kwargs)
    return environment


class CartPoles:
    """R cart poles; see :class:`rollouts.fleet.environments.contract.VectorEnvironment`.

    Gymnasium's vector environment steps all rows at once and spends a step on each reset. Here any
    subset of rows can be stepped with the same equations, and each row has its own random numbers.
    """

    def __init__(self, rows: int) -> None:
        self._one = CartPoleEnv()
        self.observation_space = self._one.observation_space
        self.action_space = self._one.action_space
        self._time_limit = gymnasium.spec("CartPole-v1").max_episode_steps or np.iinfo(np.int64).max
        self._state = np.zeros((4, rows))
        """Position and velocity of the cart, angle and angular velocity of the pole, ``[4, R]``."""
        self._lengths = np.zeros(rows, dtype=np.int64)
        """Steps of the current episodes, ``[R]``."""
        self._random = [seeding.np_random()[0] for _ in range(rows)]

    def reset(self, row: int, *, seed: int | None = None) -> NDArray[np.float32]:
        if seed is not None:
            self._random[row] = seeding.np_random(seed)[0]
        begun = self._random[row].uniform(low=-RESET_LIMIT, high=RESET_LIMIT, size=(4,))
        self._state[:, row] = begun
        self._lengths[row] = 0
        return begun.astype(np.float32)

    def step(
        self, rows: NDArray[np.intp], actions: NDArray[Any]
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.bool_], NDArray[np.bool_]]:
        """Push each of ``rows [N]`` to the left (0) or to the right (1)."""
        like = self._one
        before = self._state[:, rows]
        _, speed, angle, angular_speed = before
        cos, sin = np.cos(angle), np.sin(angle)
        force = np.where(actions == 1, like.force_mag, -like.force_mag)
        # Same order of operations as CartPoleEnv.step, because another order rounds differently.
        push = (force + like.polemass_length * np.square(angular_speed) * sin) / like.total_mass
        angular_acceleration = (like.gravity * sin - cos * push) / (
            like.length * (4.0 / 3.0 - like.masspole * np.square(cos) / like.total_mass)
        )
        acceleration = push - like.polemass_length * angular_acceleration * cos / like.total_mass
        change = np.stack((speed, acceleration, angular_speed, angular_acceleration))
        after = before + like.tau * change
        self._state[:, rows] = after
        self._lengths[rows] += 1
        terminated = (np.abs(after[0]) > like.x_threshold) | (
            np.abs(after[2]) > like.theta_threshold_radians
        )
        truncated = self._lengths[rows] >= self._time_limit
        return after.T.astype(np.float32), np.ones(len(rows)), terminated, truncated

    def close(self) -> None:
        """Do nothing: there are no resources."""


class Catch(gymnasium.Env[NDArray[np.uint8], np.int64]):
    """A ball falls down a board, and a paddle in the lowest row must catch it.

    An observation is the board, ``[height, width, 1]`` bytes, with ball and paddle at 255.
    Actions move the paddle: 0 left, 1 not at all, 2 right. The episode ends when the ball is down,
    with a reward of 1 if the paddle is below it and −1 otherwise.
    """

    def __init__(self, *, height: int = 10, width: int = 5) -> None:
        """Create a board of `height` rows and `width` columns.

        Raises:
            ValueError: If either size is below 2.
        """
        if height < 2 or width < 2:
            raise ValueError(f"catch needs a board of at least 2 × 2, not {height} × {width}")
        self.observation_space = gymnasium.spaces.Box(0, BRIGHT, (height, width, 1), np.uint8)
        self.action_space = gymnasium.spaces.Discrete(3)
        self._height = height
        self._width = width
        self._row = 0
        self._column = 0
        self._paddle = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._row = 0
        self._column = int(self.np_random.integers(self._width))
        self._paddle = self._width // 2
        return self._board(), {}

    def step(
        self, action: np.int64 | int
    ) -> tuple[NDArray[np.uint8], float, bool, bool, dict[str, Any]]:
        """Move the paddle, then the ball."""
        self._paddle = min(self._width - 1, max(0, self._paddle + int(action) - 1))
        self._row += 1
        is_down = self._row == self._height - 1
        caught = 1.0 if self._paddle == self._column else -1.0
        return self._board(), caught if is_down else 0.0, is_down, False, {}

    def _board(self) -> NDArray[np.uint8]:
        board = np.zeros((self._height, self._width, 1), dtype=np.uint8)
        board[self._row, self._column] = BRIGHT
        board[-1, self._paddle] = BRIGHT
        return board


class Recall(gymnasium.Env[NDArray[np.float32], np.int64]):
    """A cue of the first observation must be named at the end.

    An observation is one-hot over the cues, followed by 1.0 if the question is asked. The first
    one shows the cue, followed by `delay` blank ones and the question. The answer ends the episode
    with a reward of 1 if it names the cue, else 0; earlier actions have no effect. Without memory,
    the best mean return is 1 / `cues`.
    """

    def __init__(self, *, cues: int = 2, delay: int = 8) -> None:
        """Create a task of `delay` + 2 steps with a number of cues, which are also the actions.

        Raises:
            ValueError: If `cues` is below 2 or `delay` is negative.
        """
        if cues < 2 or delay < 0:
            raise ValueError(f"recall needs cues ≥ 2 and delay ≥ 0, not {cues} and {delay}")
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, (cues + 1,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(cues)
        self._cues = cues
        self._delay = delay
        self._cue = 0
        self._at = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._cue = int(self.np_random.integers(self._cues))
        self._at = 0
        return self._shown(self._cue), {}

    def step(
        self, action: np.int64 | int
    ) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Advance one step; the step after the question takes the answer."""
        self._at += 1
        is_answered = self._at == self._delay + 2
        is_asked = self._at == self._delay + 1
        reward = float(is_answered and int(action) == self._cue)
        return self._shown(self._cues if is_asked else None), reward, is_answered, False, {}

    def _shown(self, at: int | None) -> NDArray[np.float32]:
        observation = np.zeros(self._cues + 1, dtype=np.float32)
        if at is not None:
            observation[at] = 1.0
        return observation


def make_rolldeck(name: str, kwargs: Mapping[str, Any]) -> Environment:
    """Return the environment with the id `name`.

    Raises:
        UnknownEnvironment: If it does not exist.
    """
    known: dict[str, type[Environment]] = {"catch-v0": Catch, "recall-v0": Recall}
    if name not in known:
        raise UnknownEnvironment(f"rolldeck has no environment {name!r}; known: {', '.join(known)}")
    return known[name](**kwargs)


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
        self._simulator.close()

    def _shown(self, obs: Mapping[str, Any]) -> dict[str, Any]:
        """Return only the entries of the space; callbacks add others."""
        self._image = obs["image"]
        return {name: obs[name] for name in self.observation_space.spaces}


def make_minestudio(name: str, kwargs: Mapping[str, Any]) -> Environment:
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
