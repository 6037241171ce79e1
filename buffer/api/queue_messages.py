"""Shape what is answered about the queue and about the items of a batch."""

from datetime import datetime
from typing import Literal

from msgspec import Struct

from buffer.api.messages import BatchRow


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


class LimitSetter(Struct, frozen=True, kw_only=True):
    """Who made the limits what they are."""

    actor: str
    at: datetime
    reason: str
    was_created_so: bool


class EnvironmentQueueRow(Struct, frozen=True, kw_only=True):
    """What waits of one environment."""

    env_id: int | None
    name: str
    queued: int
    queued_sequences: int
    waiting: int
    """Groups that are smaller than the environment's, or fragments of a chunk, until complete."""
    waiting_sizes: dict[int, int]
    """Of groups that wait: how many there are of each size in sequences."""
    group_size: int | None
    """Sequences to which waiting groups have to add up; null where nobody said so."""
    oldest_at: datetime | None
    """When the head of its queue came in."""
    waiting_since: datetime | None
    """When the oldest of the groups that wait came in."""


class EnvironmentArrivals(Struct, frozen=True, kw_only=True):
    """What one environment pushed within the last minute."""

    env_id: int | None
    """Of groups; null where they came without one, and for fragments."""
    environment: str
    """Of fragments, by name."""
    per_second: float
    """Groups or fragments, those that were dropped as they came in too; of less than a minute
    where very many came."""
    newest_at: datetime


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


class BatchItem(Struct, frozen=True, kw_only=True):
    """A group or fragment of a batch without its bytes."""

    id: int
    position: int
    environment: str
    env_id: int | None
    policy_step: int | None
    """Version that sampled it, the oldest one of a fragment."""
    staleness: int | None
    """Versions by which it trailed the run when the batch was handed out."""
    received_at: datetime
    size_bytes: int
    sequences: int
    tokens: int | None
    """Of groups."""
    longest_tokens: int | None
    score_mean: float | None
    steps: int | None
    """Env steps, of fragments."""
    state: str
    drop_reason: str


class BatchItems(Struct, frozen=True, kw_only=True):
    """A batch, and what it is made of by position; at most a thousand items."""

    batch: BatchRow
    items: list[BatchItem]
