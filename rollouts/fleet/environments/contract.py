"""Interfaces of environments, and checks that an object has them.

Every environment is built and begun with these checks, so that a check before launch, a probe, a
rollout and a fleet refuse one with the same words.
"""

import inspect
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from rollouts.fleet.policies.spaces import (
    InvalidValue,
    Space,
    UnsupportedSpace,
    actions,
    observations,
)

SPECS_VARIABLE: Final = "ROLLDECK_ENVIRONMENTS"
VectorStep = tuple[NDArray[Any], NDArray[Any], NDArray[np.bool_], NDArray[np.bool_]]
VectorStepWithInfo = tuple[
    NDArray[Any], NDArray[Any], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]
]
_OLD: Final = (
    "this is the interface of Gym before 0.26. Return (observation, info) from reset(seed=…) and "
    "five values from step, or wrap the environment in shimmy.GymV21CompatibilityV0"
)


class UnknownEnvironment(LookupError):
    """No registered kind of environment matches the spec."""


class Environment(Protocol):
    """Subset of the Gymnasium environment interface that the fleet uses."""

    observation_space: Any
    action_space: Any

    def reset(self, *, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; return its first observation and extras."""

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Return observation, reward, terminated, truncated and extras."""

    def close(self) -> None:
        """Release all resources."""


class VectorEnvironment(Protocol):
    """R environments of one kind in one object, any subset of which can be stepped together.

    Each row behaves exactly like a single environment of the same spec.
    """

    observation_space: Any
    """Space of one row; so is `action_space`."""
    action_space: Any

    def reset(self, row: int, *, seed: int | None = None) -> Any:
        """Begin an episode of one row; return its first observation."""

    def step(
        self, rows: NDArray[np.intp], actions: NDArray[Any]
    ) -> VectorStep | VectorStepWithInfo:
        """Step distinct ``rows [N]`` with ``actions [N, …]``, without beginning episodes.

        Returns:
            Observations ``[N, …]``; rewards, terminated and truncated, ``[N]`` each. Optionally
            the extras as Gymnasium's vector environments return them: columns ``[N]`` by name,
            each with a mask ``_<name> [N]`` if some rows have no value.
        """

    def close(self) -> None:
        """Release all resources."""


def require_registered(spec: str) -> None:
    """Check that an administrator has registered a spec that imports a module.

    Raises:
        UnknownEnvironment: If ``ROLLDECK_ENVIRONMENTS`` of this machine does not contain it.
    """
    named = os.environ.get(SPECS_VARIABLE, "").split(",")
    if spec not in {name.strip() for name in named}:
        raise UnknownEnvironment(
            f"{spec} is not registered on {socket.gethostname()}: "
            f"an administrator must add it to {SPECS_VARIABLE}"
        )


class WrongInterface(InvalidValue):
    """The object is no single environment with Gymnasium's interface."""


def single(environment: Any, spec: str) -> Environment:
    """Return an environment that is single and takes a seed.

    Raises:
        WrongInterface: If it is a vector environment, or its `reset` takes no seed.
    """
    rows = getattr(environment, "num_envs", 1)
    if hasattr(environment, "single_observation_space") or (isinstance(rows, int) and rows > 1):
        raise WrongInterface(
            f"{spec} is a vector environment: name the single one, or register its rows with "
            "register_vector"
        )
    found: Environment = environment
    try:
        parameters = inspect.signature(found.reset).parameters
    except (AttributeError, TypeError, ValueError):  # absent, or not written in Python
        return found
    kinds = {one.kind for one in parameters.values()}
    if "seed" not in parameters and inspect.Parameter.VAR_KEYWORD not in kinds:
        raise WrongInterface(f"{spec}: reset takes no seed; {_OLD}")
    return found


def begun(answer: Any) -> tuple[Any, Any]:
    """Return the first observation and the extras that `reset` returned.

    Raises:
        WrongInterface: If it returned something else.
    """
    if isinstance(answer, tuple | list) and len(answer) == 2:
        return answer[0], answer[1]
    raise WrongInterface(f"reset returned {_shown(answer)}, not (observation, info); {_OLD}")


def stepped(answer: Any) -> tuple[Any, Any, Any, Any, Any]:
    """Return the five values that `step` returned.

    Raises:
        WrongInterface: If it returned something else.
    """
    if isinstance(answer, tuple | list) and len(answer) == 5:
        obs, reward, terminated, truncated, info = answer
        return obs, reward, terminated, truncated, info
    raise WrongInterface(f"step returned {_shown(answer)}, not five values; {_OLD}")


def _shown(answer: Any) -> str:
    kind = type(answer).__name__
    return f"a {kind} of {len(answer)} values" if isinstance(answer, tuple | list) else f"a {kind}"


def supported(environment: Environment, spec: str) -> Environment:
    """Return an environment whose spaces can be represented.

    Raises:
        UnsupportedSpace: If they cannot; names the part.
    """
    spaces: tuple[tuple[str, Any, Callable[[Any], Any], str], ...] = (
        ("observation", environment.observation_space, observations, "TransformObservation"),
        ("action", environment.action_space, actions, "TransformAction"),
    )
    for name, space, convert, wrapper in spaces:
        if isinstance(space, Space):
            continue
        try:
            convert(space)
        except UnsupportedSpace as error:
            path = next((".".join(path) for path, leaf in _leaves(space) if _fails(leaf)), "")
            where = f"{name} space, part {path}" if path else f"{name} space"
            raise UnsupportedSpace(
                f"{spec}: {where}: {error}. Convert it with a wrapper, such as "
                f"gymnasium.wrappers.{wrapper}"
            ) from error
    return environment


def _fails(leaf: Any) -> bool:
    try:
        observations(leaf)
    except UnsupportedSpace:
        return True
    return False


def _leaves(space: Any, above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the parts of a Dict or Tuple that have no parts themselves, by path."""
    children = getattr(space, "spaces", None) if type(space).__name__ in {"Dict", "Tuple"} else None
    if not children:
        yield above, space
        return
    named = children.items() if isinstance(children, Mapping) else enumerate(children)
    for key, child in named:
        yield from _leaves(child, (*above, str(key)))
