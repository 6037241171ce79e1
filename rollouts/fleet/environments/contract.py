"""Interfaces of environments, and the check of their specs."""

import os
import socket
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

SPECS_VARIABLE: Final = "ROLLDECK_ENVIRONMENTS"


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


VectorStep = tuple[NDArray[Any], NDArray[Any], NDArray[np.bool_], NDArray[np.bool_]]
VectorStepWithInfo = tuple[
    NDArray[Any], NDArray[Any], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]
]


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
