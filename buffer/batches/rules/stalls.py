"""Tell whether data stands still between those who make it and those who train on it.

Three may hold a run up: nobody makes anything, nobody takes what is there, or a trainer is at work
on what it took. The last one is no trouble: its lease says how long it may take.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum


class Stall(StrEnum):
    """Who is missing."""

    PRODUCERS = "producers"
    """Less than a batch is there, and nothing came in for long."""
    TRAINERS = "trainers"
    """A batch is there, and nobody took one for long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """What moved in a run, and what lies there; sizes count sequences, or fragments of a fleet."""

    running_since: datetime
    queued: int
    leased: int
    batch_size: int | None
    """None until a trainer or the configuration has said it."""
    arrived_at: datetime | None
    """When anything last came in; None for never."""
    taken_at: datetime | None
    """When a batch was last taken; None for never."""


def stall_of(flow: Flow, *, patience: timedelta, now: datetime) -> Stall | None:
    """Return who has been missing for longer than `patience`; None while data moves."""
    if flow.leased > 0:
        return None
    has_batch = flow.queued > 0 and flow.queued >= (flow.batch_size or 1)
    moved_at = flow.taken_at if has_batch else flow.arrived_at
    if now - max(flow.running_since, moved_at or flow.running_since) <= patience:
        return None
    return Stall.TRAINERS if has_batch else Stall.PRODUCERS
