"""Wrappers and callbacks of environments that an administrator has registered.

A wrapper is a class or function that takes the environment and the run's arguments and returns an
environment, such as a :class:`gymnasium.Wrapper`. Callbacks have the form of MineStudio's.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rollouts.fleet.environments.contract import Environment
from rollouts.fleet.process.extensions import ExtensionFailed, build, raised
from runs.config.rules.extensions import ENVIRONMENT_CALLBACKS, WRAPPERS
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


class EnvironmentWithCallbacks:
    """An environment whose resets and steps pass through callbacks, in their order.

    A callback has any of these methods:

    ``after_reset(environment, obs, info)``
        Returns the observation and the info of the first step.
    ``before_step(environment, action)``
        Returns the action.
    ``after_step(environment, obs, reward, terminated, truncated, info)``
        Returns these five values.
    ``before_close(environment)``
        Called once.
    """

    def __init__(self, environment: Environment, callbacks: Sequence[ExtensionConfig]) -> None:
        """Build the callbacks.

        Raises:
            ExtensionFailed: If one is not registered on this machine, cannot be imported, or
                raises.
        """
        self._environment = environment
        self.observation_space = environment.observation_space
        self.action_space = environment.action_space
        self._callbacks: list[tuple[str, str, Any]] = []
        """Field, kind and hooks of each callback."""
        for position, one in enumerate(callbacks):
            field = f"{ENVIRONMENT_CALLBACKS.field}[{position}]"
            hooks = build(ENVIRONMENT_CALLBACKS, field, one.kind, one.kwargs)
            self._callbacks.append((field, one.kind, hooks))

    def reset(self, *, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
        obs, extras = self._through("after_reset", self._environment.reset(seed=seed))
        return obs, extras

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        (action,) = self._through("before_step", (action,))
        obs, reward, terminated, truncated, extras = self._through(
            "after_step", self._environment.step(action)
        )
        return obs, reward, terminated, truncated, extras

    def render(self) -> Any:
        return self._environment.render()  # type: ignore[attr-defined]

    @property
    def metadata(self) -> Mapping[str, Any]:
        return getattr(self._environment, "metadata", None) or {}

    def close(self) -> None:
        """Call `before_close`, then close the environment."""
        try:
            self._through("before_close", ())
        finally:
            self._environment.close()

    def _through(self, hook: str, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return `values` after the callbacks that have `hook`; each returns as many values."""
        for field, kind, hooks in self._callbacks:
            call = getattr(hooks, hook, None)
            if call is None:
                continue
            try:
                found = call(self._environment, *values)
                if len(values) == 1:
                    values = (found,)
                elif values:
                    values = _checked(hook, found, len(values))
            except Exception as error:
                raise raised(field, kind, error) from error
        return values


def _checked(hook: str, found: Any, count: int) -> tuple[Any, ...]:
    if not isinstance(found, tuple) or len(found) != count:
        raise TypeError(f"{hook} must return a tuple of {count} values, not {type(found).__name__}")
    return found
