"""Detection of orphaned processes of a worker by an inherited mark.

The mark is an environment variable, so every process that an environment starts inherits it,
including a simulator's own children, which parent-death signals and process groups may miss.
"""

from dataclasses import dataclass
from typing import Final

VARIABLE: Final = "ROLLDECK_PROCESS_OF"
_SAME_START_SECONDS: Final = 2.0
"""Tolerance between two readings of a process's start time, in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Owner of a process."""

    fleet: str
    """Short name of a run of one deployment, without spaces."""
    worker: int
    """Index in the fleet."""
    incarnation: str
    """Incarnation of the worker, without spaces."""
    owner_pid: int
    """Process id of the worker."""
    owner_started: float
    """Start time of that process in seconds of Unix time, because process ids are reused."""

    def __str__(self) -> str:
        return (
            f"{self.fleet} {self.worker} {self.incarnation} {self.owner_pid} "
            f"{self.owner_started:.2f}"
        )


def read_mark(text: str) -> Mark | None:
    """Return the mark in `text`; None if it is not a valid mark."""
    try:
        fleet, worker, incarnation, pid, started = text.split(" ")
        return Mark(
            fleet=fleet,
            worker=int(worker),
            incarnation=incarnation,
            owner_pid=int(pid),
            owner_started=float(started),
        )
    except ValueError:
        return None


def lives(found: Mark, owner_started: float | None) -> bool:
    """Return whether the process that set the mark is alive.

    Args:
        found: The mark.
        owner_started: Start time of the process that has the owner's id now; None without one.
    """
    return (
        owner_started is not None
        and abs(owner_started - found.owner_started) <= _SAME_START_SECONDS
    )


def why_ended(found: Mark, *, mine: Mark, owner_lives: bool) -> str:
    """Return why a process with the mark `found` must end; empty if it must not.

    Args:
        found: Mark of the process.
        mine: Mark of the starting worker.
        owner_lives: Whether the process that set the mark is alive.
    """
    if not owner_lives:
        return "its worker is gone"
    if found.owner_pid == mine.owner_pid:
        return ""
    if (found.fleet, found.worker) == (mine.fleet, mine.worker):
        # A manager starts another incarnation only after it has given up the previous one.
        return f"it belongs to an earlier worker {found.worker}"
    return ""
