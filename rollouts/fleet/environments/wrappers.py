"""Environment wrappers that an administrator has registered.

A kind names a class or function that takes the environment and the run's arguments and returns an
environment, such as a :class:`gymnasium.Wrapper`:

- ``module:<import.path>:<Name>``, listed in ``ROLLDECK_ENVIRONMENT_WRAPPERS`` of the machine that
  imports it;
- ``package:<name>``, an entry point of the group ``rolldeck.environment_wrappers``.
"""

import importlib
import os
import socket
from collections.abc import Callable, Sequence
from importlib.metadata import entry_points
from typing import Any, Final

from rollouts.fleet.environments.contract import Environment
from runs.config.rules.environment_config import WrapperConfig
from runs.config.rules.environment_wrappers import ENTRY_POINTS, FIELD, SETTING

_MEMBERS: Final = ("observation_space", "action_space", "reset", "step", "close")


class WrapperFailed(ValueError):
    """A wrapper cannot be applied; `field` is its dotted path in the configuration."""

    def __init__(self, position: int, message: str, *, is_missing: bool = False) -> None:
        """Name the wrapper at `position`; `is_missing` if this machine does not have it."""
        self.field = f"{FIELD}[{position}]"
        self.is_missing = is_missing
        super().__init__(f"{self.field}: {message}")


def wrap(environment: Environment, wrappers: Sequence[WrapperConfig]) -> Environment:
    """Return the environment in its wrappers; the first one is the innermost.

    Raises:
        WrapperFailed: If a wrapper is not registered on this machine, cannot be imported, raises,
            or returns something else than an environment.
    """
    for position, wrapper in enumerate(wrappers):
        factory = _load(position, wrapper.kind)
        try:
            wrapped = factory(environment, **wrapper.kwargs)
        except Exception as error:
            raise WrapperFailed(position, f"{wrapper.kind} raised {_text(error)}") from error
        missing = [name for name in _MEMBERS if not hasattr(wrapped, name)]
        if missing:
            raise WrapperFailed(
                position,
                f"{wrapper.kind} returned {type(wrapped).__name__}, which has no {missing[0]}",
            )
        environment = wrapped
    return environment


def _load(position: int, kind: str) -> Callable[..., Any]:
    source, _, name = kind.partition(":")
    if source == "package":
        points = [point for point in entry_points(group=ENTRY_POINTS) if point.name == name]
        if not points:
            message = f"no package on {socket.gethostname()} has an entry point {name!r}"
            raise WrapperFailed(position, message, is_missing=True)
        return _imported(position, kind, points[0].load)
    if kind not in {one.strip() for one in os.environ.get(SETTING, "").split(",")}:
        raise WrapperFailed(
            position,
            f"{kind} is not registered on {socket.gethostname()}: "
            f"an administrator must add it to {SETTING}",
            is_missing=True,
        )
    path, _, attribute = name.partition(":")
    return _imported(position, kind, lambda: getattr(importlib.import_module(path), attribute))


def _imported(position: int, kind: str, read: Callable[[], Any]) -> Callable[..., Any]:
    try:
        found = read()
    except Exception as error:
        message = f"{kind} cannot be imported: {_text(error)}"
        is_missing = isinstance(error, ImportError)
        raise WrapperFailed(position, message, is_missing=is_missing) from error
    if not callable(found):
        raise WrapperFailed(position, f"{kind} is not callable")
    factory: Callable[..., Any] = found
    return factory


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
