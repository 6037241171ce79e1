"""Build environments from their specs, inside env processes only.

Building one imports the code behind it. A node's administrator adds kinds of environments by
naming modules in ``ROLLDECK_ENVIRONMENT_MODULES`` (comma-separated); each calls
:func:`register` when it is imported. A run's configuration cannot name a module.
"""

import importlib
import os
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, Protocol

import numpy as np
from msgspec import Struct

MODULES_VARIABLE: Final = "ROLLDECK_ENVIRONMENT_MODULES"


class UnknownEnvironment(LookupError):
    """No registered kind of environment answers to the spec."""


class UnsupportedSpace(TypeError):
    """Observations or actions have a form that no policy here can take."""


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


class Space(Struct, frozen=True, kw_only=True):
    """The form of observations or actions, free of Gymnasium."""

    kind: Literal["discrete", "box"]
    shape: tuple[int, ...]
    """Of one value; empty for discrete ones."""
    dtype: str
    choices: int = 0
    """Of a discrete space, counted from `start`."""
    start: int = 0
    low: list[float] = []
    """Of a box, flat; empty where every bound is infinite."""
    high: list[float] = []

    @property
    def size(self) -> int:
        """Numbers in one value once it is flat; choices of a discrete space."""
        return self.choices or int(np.prod(self.shape, dtype=np.int64))


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
    """
    kind, _, name = spec.partition(":")
    if kind not in _factories:
        raise UnknownEnvironment(f"{spec}: no environments of kind {kind!r} are registered")
    return _factories[kind](name, kwargs)


def import_registered_modules() -> None:
    """Import what the administrator of this node has named."""
    for name in os.environ.get(MODULES_VARIABLE, "").split(","):
        if name.strip():
            importlib.import_module(name.strip())


def describe(space: Any) -> Space:
    """Return the form of a Gymnasium space.

    Raises:
        UnsupportedSpace: If it is neither Discrete nor a Box.
    """
    kind = type(space).__name__
    if kind == "Discrete":
        return Space(
            kind="discrete",
            shape=(),
            dtype="int64",
            choices=int(space.n),
            start=int(space.start),
        )
    if kind == "Box":
        low, high = np.ravel(space.low), np.ravel(space.high)
        bounded = bool(np.isfinite(low).all() and np.isfinite(high).all())
        return Space(
            kind="box",
            shape=tuple(int(size) for size in space.shape),
            dtype=np.dtype(space.dtype).name,
            low=[float(x) for x in low] if bounded else [],
            high=[float(x) for x in high] if bounded else [],
        )
    raise UnsupportedSpace(f"{kind} is not supported; use Discrete or Box")


def _gymnasium(name: str, kwargs: Mapping[str, Any]) -> Environment:
    import gymnasium

    # The checker doubles the cost of a step; specs are checked when a run is created.
    environment: Environment = gymnasium.make(name, disable_env_checker=True, **kwargs)
    return environment


register("gymnasium", _gymnasium)
