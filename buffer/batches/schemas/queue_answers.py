"""API schemas of the queue and of a batch's items."""

from datetime import datetime
from typing import Literal

from msgspec import Struct

from buffer.batches.schemas.batches import BatchRow, PreviewAnswer
from buffer.batches.schemas.queues import (
    BatchItem,
    EnvironmentPushRate,
    EnvironmentQueueRow,
    LimitSetter,
)
from buffer.items.schemas.ledgers import LedgerPart
from web.rules.pages import Page


class PauseGate(Struct, frozen=True, kw_only=True):
    """A rule that pauses producers; amounts count sequences or fragments."""

    rule: Literal["tolerance", "staleness"]
    closed: bool
    amount: float
    limit: float
    reopens_after: float
    """Amount to be trained on before the gate opens; 0 while it is open."""
    condition: str
    """The inequality with its numbers."""


class PushRateList(Page[EnvironmentPushRate], frozen=True, kw_only=True):
    """Environments with pushes within the last minute."""


class QueueAnswer(Struct, frozen=True, kw_only=True):
    """The queue of a run, its ledger, its next batch, and the gates that pause its producers.

    All figures are from one snapshot of the database.
    """

    at: datetime
    """Time of the request."""
    unit: Literal["sequences", "fragments"]
    queued: int
    """Number of queued items."""
    queued_sequences: int
    waiting: int
    leased: int
    leased_sequences: int
    size_bytes: int
    batch_size: int | None
    threshold: float
    resume_at: float
    paused: bool
    """At least one gate is closed."""
    gates: list[PauseGate]
    since: datetime | None
    """Time since which the queue exceeds its tolerance; null if not, or not checked yet."""
    set_by: LimitSetter | None
    trained_per_second: float | None
    resumes_in_seconds: float | None
    """Estimate from the batches leased in the last two minutes; null without any."""
    environments: list[EnvironmentQueueRow]
    served_steps: int
    ledger: LedgerPart
    next_batch: PreviewAnswer | None
    """Preview of the next batch; null for runs of fragments."""


class BatchItems(Page[BatchItem], frozen=True, kw_only=True):
    """A batch and its items by position."""

    batch: BatchRow
