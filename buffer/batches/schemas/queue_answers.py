"""Shape what is answered about the queue and about the items of a batch."""

from datetime import datetime
from typing import Literal

from msgspec import Struct

from buffer.batches.schemas.batches import BatchRow
from buffer.batches.schemas.queues import (
    BatchItem,
    EnvironmentArrivals,
    EnvironmentQueueRow,
    LimitSetter,
)


class PauseGate(Struct, frozen=True, kw_only=True):
    """A reason for which producers may have to wait; amounts count sequences or fragments."""

    rule: Literal["tolerance", "staleness"]
    closed: bool
    amount: float
    limit: float
    reopens_after: float
    """How many have to be trained on before it opens; 0 while it is open."""
    words: str
    """The inequality with its numbers."""


class ArrivalList(Struct, frozen=True, kw_only=True):
    """Environments that pushed anything within the last minute."""

    results: list[EnvironmentArrivals]


class QueueAnswer(Struct, frozen=True, kw_only=True):
    """The queue of a run, and why its producers wait if they do."""

    unit: Literal["sequences", "fragments"]
    queued: int
    """Items."""
    queued_sequences: int
    waiting: int
    leased: int
    size_bytes: int
    batch_size: int | None
    threshold: float
    resume_at: float
    paused: bool
    """At least one gate is closed."""
    gates: list[PauseGate]
    since: datetime | None
    """Since when the queue is over its tolerance; null while it is not, or nobody has asked."""
    set_by: LimitSetter | None
    trained_per_second: float | None
    resumes_in_seconds: float | None
    """At the rate at which batches were taken in the last two minutes; null if none was."""
    environments: list[EnvironmentQueueRow]


class BatchItems(Struct, frozen=True, kw_only=True):
    """A batch, and what it is made of by position; at most a thousand items."""

    batch: BatchRow
    items: list[BatchItem]
