"""Shape what is asked and answered about batches, limits and segments."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from buffer.batches.schemas.queues import EnvironmentMixing
from buffer.ingest.schemas.scored_data import ScoredData
from rolldeck.wire import BatchHead

Rank = Annotated[int, Meta(ge=0, lt=1 << 16)]
WorldSize = Annotated[int, Meta(ge=1, le=1 << 16)]


class NextBatch(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long to wait for a batch, and which shard of it is wanted.

    Rank 0 leases batches. The others get their shard of the batch that it holds, once its
    ordinal is above `after`: that of the batch they had before.
    """

    wait_seconds: Annotated[float, Meta(ge=0, le=60)] = 0.0
    rank: Rank = 0
    world_size: WorldSize = 1
    after: Annotated[int, Meta(ge=0, lt=1 << 31)] = 0


class FetchFragments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many fragments to lease, and how long to wait for them."""

    count: Annotated[int, Meta(ge=1, le=65_536)]
    wait_seconds: Annotated[float, Meta(ge=0, le=60)] = 0.0


class AckBatch(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Confirmation of a batch under the fence of its lease."""

    fence: Annotated[int, Meta(ge=1, lt=1 << 31)]


class AckFragments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Confirmation of fetched fragments."""

    batch: str
    fence: Annotated[int, Meta(ge=1, lt=1 << 31)]


class JsonBatch(Struct, frozen=True, kw_only=True):
    """Leased batch of trajectory groups in JSON."""

    batch: BatchHead
    items: list[ScoredData]


class Acked(Struct, frozen=True, kw_only=True):
    """Answer to a confirmation: batches handed out so far."""

    served_steps: int


class BatchRow(Struct, frozen=True, kw_only=True):
    """A batch without its bytes; `composition` counts sequences or fragments by environment.

    `shares` are the environments' target shares when it was formed; `padding` is the part of its
    positions that padding to its longest sequence wastes, null for fragments; `staleness` counts
    items by policy versions behind; `lapses` counts leases that ran out.
    """

    id: str
    ordinal: int
    kind: Literal["groups", "fragments"]
    sampler: str
    """Of a sampled batch; empty when it is a stretch of the queue."""
    state: Literal["leased", "returned", "quarantined", "confirmed", "dropped"]
    trainer: str | None
    fence: int
    epoch: int
    policy_step: int
    leased_at: datetime
    lease_expires_at: datetime
    delivered_at: datetime | None
    settled_at: datetime | None
    lapses: int
    items: int
    sequences: int
    size_bytes: int
    tokens: int
    longest_tokens: int
    padding: float | None
    composition: dict[str, int]
    shares: dict[str, float]
    staleness: dict[str, int]


class MixingAnswer(Struct, frozen=True, kw_only=True):
    """How a run shares its batches among environments."""

    batch_size: int | None
    dry_deadline_seconds: float | None
    environments: list[EnvironmentMixing]


class PreviewAnswer(Struct, frozen=True, kw_only=True):
    """What the next batch would be made of, or why there is none.

    `reason` is null when there is one. `comes_again` names a batch whose lease ran out: it goes
    out first, as it is. `sizes` counts groups by sequences; `padding` is the part of its
    positions that padding to the longest sequence would waste.
    """

    reason: Literal["unregistered", "too_few", "no_exact_fill", "waiting_for_minimum"] | None
    batch_size: int | None
    queued_sequences: int
    waiting_for: list[int]
    waits_until: datetime | None
    comes_again: str | None
    items: int
    sequences: int
    sizes: dict[int, int]
    composition: dict[str, int]
    shares: dict[str, float]
    tokens: int
    longest_tokens: int
    padding: float | None
    oldest_at: datetime | None
    newest_at: datetime | None


class BatchList(Struct, frozen=True, kw_only=True):
    """Batches, newest first."""

    results: list[BatchRow]
