"""Build environments from their specs, inside env processes only.

Building one imports the code behind it, so a run's configuration can only choose among what an
administrator allows. ``ROLLDECK_ENVIRONMENTS`` (comma-separated) registers further specs, such as
``module:my_lab.mazes:Maze``. Whole kinds come from modules named in
``ROLLDECK_ENVIRONMENT_MODULES``, each of which calls :func:`register` when it is imported.
"""

import importlib
import os
import socket
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from rollouts.fleet.spaces import Space, UnsupportedSpace, actions, observations

__all__ = [
    "Adapted",
    "Environment",
    "Space",
    "UnknownEnvironment",
    "UnsupportedSpace",
    "describe",
    "import_registered_modules",
    "make",
    "register",
    "require_registered",
]

MODULES_VARIABLE: Final = "ROLLDECK_ENVIRONMENT_MODULES"
SPECS_VARIABLE: Final = "ROLLDECK_ENVIRONMENTS"


class UnknownEnvironment(LookupError):
    """No registered kind of environment answers to the spec."""


class Environment(Protocol):
    """What the fleet uses of a Gymnasium environment."""

    observation_space: Any
    action_space: Any

    def reset(self, *, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; return its first observation."""

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Return observation, reward, terminated, truncated and extras."""

    def close(self) -> None:
        """Let go of everything."""


class Adapted:
    """An environment whose observations or actions travel in another form than it has.

    Its spaces are :class:`Space` already.
    """

    def __init__(self, environment: Environment) -> None:
        """Wrap `environment`.

        Raises:
            UnsupportedSpace: If it shows or takes what no policy here can.
        """
        self._environment = environment
        self.observation_space, self._encode = observations(environment.observation_space)
        self.action_space, self._decode = actions(environment.action_space)

    @property
    def is_needed(self) -> bool:
        """Whether anything differs."""
        return self._encode is not None or self._decode is not None

    def reset(self, *, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; return its first observation."""
        obs, extras = self._environment.reset(seed=seed)
        return self._shown(obs), extras

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Return observation, reward, terminated, truncated and extras."""
        taken = action if self._decode is None else self._decode(action)
        obs, *rest = self._environment.step(taken)
        return self._shown(obs), *rest

    def render(self) -> Any:
        """Return the environment's picture, where it draws one."""
        return self._environment.render()  # type: ignore[attr-defined]

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What the environment says of itself."""
        return getattr(self._environment, "metadata", None) or {}

    def close(self) -> None:
        """Let go of everything."""
        self._environment.close()

    def _shown(self, obs: Any) -> Any:
        return obs if self._encode is None else self._encode(obs)


Factory = Callable[[str, Mapping[str, Any]], Environment]
_factories: dict[str, Factory] = {}


def register(kind: str, factory: Factory) -> None:
    """Let `factory` build every spec that reads ``<kind>:<id>``; it gets the id and kwargs."""
    _factories[kind] = factory


def make(spec: str, kwargs: Mapping[str, Any]) -> Environment:
    """Return a new environment.

    Args:
        spec: ``<kind>:<id>``, such as ``gymnasium:CartPole-v1``.
        kwargs: Keyword arguments for its constructor.

    Raises:
        UnknownEnvironment: If the kind is not registered.
        UnsupportedSpace: If it shows or takes what no policy here can.
    """
    kind, _, name = spec.partition(":")
    if kind not in _factories:
        raise UnknownEnvironment(f"{spec}: no environments of kind {kind!r} are registered")
    environment = _factories[kind](name, kwargs)
    adapted = Adapted(environment)
    return adapted if adapted.is_needed else environment


def import_registered_modules() -> None:
    """Import what the administrator of this node has named."""
    for name in os.environ.get(MODULES_VARIABLE, "").split(","):
        if name.strip():
            importlib.import_module(name.strip())


def describe(environment: Environment) -> tuple[Space, Space]:
    """Return the forms of an environment's observations and actions.

    Raises:
        UnsupportedSpace: If no policy here can take them.
    """
    shown, taken = environment.observation_space, environment.action_space
    if isinstance(shown, Space) and isinstance(taken, Space):
        return shown, taken
    return observations(shown)[0], actions(taken)[0]


def require_registered(spec: str) -> None:
    """Accept a spec that leads to a module only where an administrator has registered it.

    Raises:
        UnknownEnvironment: If this machine's ``ROLLDECK_ENVIRONMENTS`` does not name it.
    """
    named = os.environ.get(SPECS_VARIABLE, "").split(",")
    if spec not in {name.strip() for name in named}:
        raise UnknownEnvironment(
            f"{spec} is not registered on {socket.gethostname()}: "
            f"its administrator must add it to {SPECS_VARIABLE}"
        )


def _kind(module: str) -> Factory:
    """Return a factory whose module is imported when it is needed first."""

    def make_one(name: str, kwargs: Mapping[str, Any]) -> Environment:
        kind = importlib.import_module(f"rollouts.fleet.environment_kinds.{module}")
        environment: Environment = kind.make(name, kwargs)
        return environment

    return make_one


register("gymnasium", _kind("gymnasium_ids"))
register("rolldeck", _kind("rolldeck_ids"))
register("module", _kind("registered_classes"))
register("minestudio", _kind("minestudio_simulators"))
