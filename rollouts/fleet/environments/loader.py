"""Build environments from their specs, inside env processes only.

Building an environment imports its code, so a run's configuration can only choose among the
environments that an administrator allows. ``ROLLDECK_ENVIRONMENTS`` (comma-separated) registers
further specs, such as ``module:my_lab.mazes:Maze``. Further kinds come from the modules in
``ROLLDECK_ENVIRONMENT_MODULES``, each of which calls :func:`register` on import.
"""

import importlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from rollouts.fleet.environments.contract import (
    Environment,
    UnknownEnvironment,
    VectorEnvironment,
    begun,
    single,
    stepped,
    supported,
)
from rollouts.fleet.environments.extensions import EnvironmentWithCallbacks, wrap
from rollouts.fleet.policies.spaces import (
    MOST,
    Space,
    UnsupportedSpace,
    actions,
    number,
    observations,
    require_finite,
)
from runs.config.rules.sections import ExtensionConfig

__all__ = [
    "Adapted",
    "RowOfVector",
    "Space",
    "UnsupportedSpace",
    "describe",
    "import_registered_modules",
    "make",
    "make_vector",
    "register",
    "register_vector",
]

MODULES_VARIABLE: Final = "ROLLDECK_ENVIRONMENT_MODULES"
FINAL_OBSERVATIONS: Final = ("final_obs", "final_observation")
"""Names in `info` of the last observation of an episode, if the next one has begun."""


class RowOfVector:
    """One row of a vector environment, as an environment."""

    def __init__(self, vector: VectorEnvironment, row: int) -> None:
        self._vector = vector
        self._row = row
        self.observation_space, self._encode = observations(vector.observation_space)
        self.action_space = vector.action_space

    def reset(self, *, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
        return self._encode(self._vector.reset(self._row, seed=seed)), {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        obs, reward, terminated, truncated, *_ = self._vector.step(
            np.array([self._row]), np.asarray(action)[None]
        )
        return obs[0], reward[0], bool(terminated[0]), bool(truncated[0]), {}

    def close(self) -> None:
        """Do nothing: the other rows stay in use."""


class Adapted:
    """An environment wrapper that converts observations and actions to supported spaces.

    Its own spaces are of type :class:`Space`. Its methods raise :class:`InvalidValue` for a value
    of another structure, shape or type, and for a reward that is not finite.
    """

    def __init__(self, environment: Environment) -> None:
        """Wrap `environment`.

        Raises:
            UnsupportedSpace: If its observations or actions cannot be represented here.
        """
        self.environment = environment
        """The environment itself."""
        self.observation_space, self._encode = observations(environment.observation_space)
        self.action_space, self._decode = actions(environment.action_space)

    def reset(self, *, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
        obs, extras = begun(self.environment.reset(seed=seed))
        return self._encode(obs), extras

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        # Usual answers are recognized without a call: this runs for every env step.
        answer = self.environment.step(action if self._decode is None else self._decode(action))
        if type(answer) is not tuple or len(answer) != 5:
            answer = stepped(answer)
        obs, reward, terminated, truncated, extras = answer
        if terminated is not False or truncated is not False:
            terminated = bool(number(terminated, "terminated"))
            truncated = bool(number(truncated, "truncated"))
            if terminated or truncated:
                final = final_observation(extras)
                obs = obs if final is None else final
        reward = float(reward) if isinstance(reward, float) else number(reward, "reward")
        if not -MOST <= reward <= MOST:
            require_finite(reward, "reward")
        return self._encode(obs), reward, terminated, truncated, extras

    def close(self) -> None:
        self.environment.close()

    def __getattr__(self, name: str) -> Any:
        """Return another attribute of the environment, such as `render`."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.environment, name)


def final_observation(extras: Any) -> Any:
    """Return the last observation of an episode whose environment has begun the next one.

    None if the `info` of the step has none.
    """
    if not isinstance(extras, Mapping):
        return None
    found = (extras.get(name) for name in FINAL_OBSERVATIONS)
    return next((one for one in found if one is not None), None)


Factory = Callable[[str, Mapping[str, Any]], Environment]
_factories: dict[str, Factory] = {}
VectorFactory = Callable[[Mapping[str, Any], int], VectorEnvironment | None]
_vector_factories: dict[str, VectorFactory] = {}


def register(kind: str, factory: Factory) -> None:
    """Register `factory` for specs of the form ``<kind>:<id>``; it receives the id and kwargs."""
    _factories[kind] = factory


def make(
    spec: str,
    kwargs: Mapping[str, Any],
    *,
    wrappers: Sequence[ExtensionConfig] = (),
    callbacks: Sequence[ExtensionConfig] = (),
) -> Adapted:
    """Return a new environment.

    Args:
        spec: ``<kind>:<id>``, such as ``gymnasium:CartPole-v1``.
        kwargs: Keyword arguments for its constructor.
        wrappers: Registered wrappers, innermost first.
        callbacks: Registered callbacks; they see the wrapped environment.

    Raises:
        UnknownEnvironment: If the kind is not registered.
        WrongInterface: If it is a vector environment, or has the interface of old Gym.
        UnsupportedSpace: If its observations or actions cannot be represented here.
        ExtensionFailed: If a wrapper or callback cannot be applied.
    """
    kind, _, name = spec.partition(":")
    if kind not in _factories:
        raise UnknownEnvironment(f"{spec}: no environments of kind {kind!r} are registered")
    made = single(_factories[kind](name, kwargs), spec)
    environment = supported(wrap(made, wrappers), spec)
    if callbacks:
        environment = EnvironmentWithCallbacks(environment, callbacks)
    return Adapted(environment)


def register_vector(spec: str, factory: VectorFactory) -> None:
    """Register `factory` to build all rows of `spec` at once; it receives kwargs and row count.

    It returns None for kwargs with which its rows would differ from what `make` returns.
    """
    _vector_factories[spec] = factory


def make_vector(spec: str, kwargs: Mapping[str, Any], *, rows: int) -> VectorEnvironment | None:
    """Return `rows` environments that step together; None if `spec` has no vector form."""
    factory = _vector_factories.get(spec)
    return None if factory is None else factory(kwargs, rows)


def import_registered_modules() -> None:
    """Import the modules that the administrator of this node has named."""
    for name in os.environ.get(MODULES_VARIABLE, "").split(","):
        if name.strip():
            importlib.import_module(name.strip())


def describe(environment: Environment) -> tuple[Space, Space]:
    """Return the observation and action spaces of an environment.

    Raises:
        UnsupportedSpace: If they cannot be represented here.
    """
    return observations(environment.observation_space)[0], actions(environment.action_space)[0]


def _kind(factory: str) -> Factory:
    """Return a factory that imports Gymnasium on first use."""

    def make_one(name: str, kwargs: Mapping[str, Any]) -> Environment:
        from rollouts.fleet.environments import kinds

        environment: Environment = getattr(kinds, factory)(name, kwargs)
        return environment

    return make_one


def _cartpoles(kwargs: Mapping[str, Any], rows: int) -> VectorEnvironment | None:
    if kwargs:
        return None
    from rollouts.fleet.environments.kinds import CartPoles

    return CartPoles(rows)


register_vector("gymnasium:CartPole-v1", _cartpoles)
register("gymnasium", _kind("make_gymnasium"))
register("rolldeck", _kind("make_rolldeck"))
register("module", _kind("make_registered"))
register("minestudio", _kind("make_minestudio"))
