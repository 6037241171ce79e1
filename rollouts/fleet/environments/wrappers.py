"""Environment wrappers that an administrator has registered.

A wrapper is a class or function that takes the environment and the run's arguments and returns an
environment, such as a :class:`gymnasium.Wrapper`.
"""

from collections.abc import Sequence
from typing import Final

from rollouts.fleet.environments.contract import Environment
from rollouts.fleet.process.extensions import ExtensionFailed, build
from runs.config.rules.extensions import WRAPPERS
from runs.config.rules.sections import ExtensionConfig

_MEMBERS: Final = ("observation_space", "action_space", "reset", "step", "close")


def wrap(environment: Environment, wrappers: Sequence[ExtensionConfig]) -> Environment:
    """Return the environment in its wrappers; the first one is the innermost.

    Raises:
        ExtensionFailed: If a wrapper is not registered on this machine, cannot be imported, raises,
            or returns something else than an environment.
    """
    for position, wrapper in enumerate(wrappers):
        field = f"{WRAPPERS.field}[{position}]"
        wrapped = build(WRAPPERS, field, wrapper.kind, wrapper.kwargs, environment)
        missing = [name for name in _MEMBERS if not hasattr(wrapped, name)]
        if missing:
            returned = type(wrapped).__name__
            raise ExtensionFailed(
                field, f"{wrapper.kind} returned {returned}, which has no {missing[0]}"
            )
        environment = wrapped
    return environment
