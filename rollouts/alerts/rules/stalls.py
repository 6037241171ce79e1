"""Detect stalls between producers and trainers.

A run does not progress if no items arrive, if no trainer leases the queued batches, or if a trainer
is working on a lease. The last case is not a stall: the lease bounds its duration.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum


class Stall(StrEnum):
    """The missing party."""

    PRODUCERS = "producers"
    """Less than one batch is queued, and no items have arrived for too long."""
    TRAINERS = "trainers"
    """A batch is queued, and no batch has been leased for too long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """Queue sizes and last activity of a run; sizes count sequences, or fragments of a fleet."""

    running_since: datetime
    queued: int
    leased: int
    batch_size: int | None
    """None until a trainer or the configuration sets it."""
    arrived_at: datetime | None
    """Time of the last arrival; None for never."""
    taken_at: datetime | None
    """Time of the last lease; None for never."""


def stall_of(flow: Flow, *, timeout: timedelta, now: datetime) -> Stall | None:
    """Return the party missing for longer than `timeout`; None while data moves."""
    if flow.leased > 0:
        return None
    has_batch = flow.queued > 0 and flow.queued >= (flow.batch_size or 1)
    moved_at = flow.taken_at if has_batch else flow.arrived_at
    if now - max(flow.running_since, moved_at or flow.running_since) <= timeout:
        return None
    return Stall.TRAINERS if has_batch else Stall.PRODUCERS
