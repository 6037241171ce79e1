"""Recognise processes that a worker left behind, by the mark that all of its processes carry.

The mark is an environment variable, so whatever an environment starts inherits it: a simulator's
own children too, which neither a parent-death signal nor a process group need reach.
"""

from dataclasses import dataclass
from typing import Final

VARIABLE: Final = "ROLLDECK_PROCESS_OF"
_SAME_START_SECONDS: Final = 2.0
"""By how much two readings of when a process began may differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Who started a process."""

    fleet: str
    """Short name of a run of one deck, without spaces."""
    worker: int
    """Index in the fleet."""
    incarnation: str
    """Of the worker, without spaces."""
    owner_pid: int
    """Process of the worker."""
    owner_started: float
    """When that process began, in seconds of Unix time: process ids come again."""

    def __str__(self) -> str:
        return (
            f"{self.fleet} {self.worker} {self.incarnation} {self.owner_pid} "
            f"{self.owner_started:.2f}"
        )


def read_mark(text: str) -> Mark | None:
    """Return the mark that `text` is; None if it is none."""
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
    """Return whether the process that put the mark on lives.

    Args:
        found: The mark.
        owner_started: When the process began that has the owner's id now; None if none has.
    """
    return (
        owner_started is not None
        and abs(owner_started - found.owner_started) <= _SAME_START_SECONDS
    )


def why_ended(found: Mark, *, mine: Mark, owner_lives: bool) -> str:
    """Return why a process with the mark `found` must end; empty if it must not.

    Args:
        found: Of the process.
        mine: Of the worker that starts now.
        owner_lives: Whether the process does that put the mark on.
    """
    if not owner_lives:
        return "its worker is gone"
    if found.owner_pid == mine.owner_pid:
        return ""
    if (found.fleet, found.worker) == (mine.fleet, mine.worker):
        # A manager starts another incarnation only after it has given the last one up.
        return f"it belongs to an earlier worker {found.worker}"
    return ""
