"""Describe the launch of a fleet's manager."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

MANAGER_PREFIX: Final = "rolldeck-"
"""How the names of all managers begin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchOrder:
    """Everything a new manager must be told; the rest it asks the platform for."""

    actor_name: str
    """Unique in the cluster and over time: no two managers ever share one."""
    incarnation: str
    run: str
    config: dict[str, Any]
    """A run configuration, every default written out."""
    platform_url: str
    token: str
    """Worker scope, bound to the run. A secret: never logged, never in `repr`."""
    run_key: str = ""
    """See :func:`run_key`."""
    weights_directory: str = ""
    """The run's folder of weights; empty where they come from the platform."""
    closed_nodes: tuple[str, ...] = ()
    """Ray's ids of the nodes that are cordoned: neither manager nor workers are placed there."""

    def __repr__(self) -> str:
        return f"LaunchOrder({self.actor_name!r}, incarnation={self.incarnation!r})"


def run_key(*, run: str, created_at: datetime) -> str:
    """Return a name that no other run has, be it archived or another platform's.

    What workers left on a machine is found by it.
    """
    return f"{run}-{created_at:%Y%m%dT%H%M%S%f}"


def actor_name(*, run: str, attempt: int) -> str:
    """Return the name of a run's manager."""
    return f"{MANAGER_PREFIX}{run}-{attempt}"


def run_of(manager: str) -> str:
    """Return the name of the run that a manager was launched for."""
    return manager.removeprefix(MANAGER_PREFIX).rpartition("-")[0]
