"""Launch description of a fleet's manager."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

MANAGER_PREFIX: Final = "rolldeck-"
"""Prefix of the names of all managers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRequest:
    """Launch parameters of a manager; it requests everything else from the platform."""

    actor_name: str
    """Unique in the cluster and over time: no two managers ever share a name."""
    incarnation: str
    run: str
    config: dict[str, Any]
    """Run configuration with all defaults resolved."""
    platform_url: str
    token: str
    """Token with worker scope for this run. A secret: never logged, never in `repr`."""
    run_key: str = ""
    """See :func:`run_key`."""
    weights_directory: str = ""
    """Folder of the run's weights; empty if workers download them from the platform."""
    closed_nodes: tuple[str, ...] = ()
    """Ray ids of the cordoned nodes: neither manager nor workers are placed there."""

    def __repr__(self) -> str:
        return f"LaunchRequest({self.actor_name!r}, incarnation={self.incarnation!r})"


def run_key(*, run: str, created_at: datetime) -> str:
    """Return a globally unique name of a run, also among archived runs and other platforms.

    It identifies the processes and files that workers left behind on a machine.
    """
    return f"{run}-{created_at:%Y%m%dT%H%M%S%f}"


def actor_name(*, run: str, attempt: int) -> str:
    """Return the name of a run's manager."""
    return f"{MANAGER_PREFIX}{run}-{attempt}"


def run_of(manager: str) -> str:
    """Return the name of the run of a manager."""
    return manager.removeprefix(MANAGER_PREFIX).rpartition("-")[0]
