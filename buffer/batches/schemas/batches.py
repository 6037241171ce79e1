"""API schemas of batches, limits and segments."""

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from msgspec import Meta, Struct

from buffer.batches.schemas.queues import EnvironmentMixing
from buffer.ingest.schemas.scored_data import ScoredData
from rolldeck.wire import BatchHead
from runs.lifecycle.schemas.runs import ActionReason
from web.rules.pages import Page

Rank = Annotated[int, Meta(ge=0, lt=1 << 16)]
WorldSize = Annotated[int, Meta(ge=1, le=1 << 16)]


MAX_HOLDING = 15
"""Maximum number of batches that a trainer holds besides the one that it requests."""


class NextBatch(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Request for the next batch: how long to wait, and for which shard.

    `holding` names the batches that the process has received; at most 15, so that a trainer holds
    at most 16. Their leases are renewed. Rank 0 leases batches. The other ranks get their shard of
    the first batch that rank 0 holds and that they have not received.
    """

    wait_seconds: Annotated[float, Meta(ge=0, le=60)] = 0.0
    rank: Rank = 0
    world_size: WorldSize = 1
    holding: Annotated[list[UUID], Meta(max_length=MAX_HOLDING)] = []


class AckFragments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Acknowledgement of fetched fragments."""

    batch: str
    fence: Annotated[int, Meta(ge=1, lt=1 << 31)]


class FetchFragments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Request for fragments: how many to lease, and how long to wait."""

    count: Annotated[int, Meta(ge=1, le=65_536)]
    wait_seconds: Annotated[float, Meta(ge=0, le=60)] = 0.0
    ack: AckFragments | None = None
    """Batch to acknowledge first; if that is refused, nothing is leased."""


class AckBatch(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Acknowledgement of a batch under the fence of its lease."""

    fence: Annotated[int, Meta(ge=1, lt=1 << 31)]


class DiscardBatch(ActionReason, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Reason for dropping a batch; `fence` for one that a trainer holds."""

    fence: Annotated[int, Meta(ge=1)] | None = None


class JsonBatch(Struct, frozen=True, kw_only=True):
    """Leased batch of trajectory groups in JSON."""

    batch: BatchHead
    items: list[ScoredData]


class Acked(Struct, frozen=True, kw_only=True):
    """Answer to an acknowledgement: batches served so far."""

    served_steps: int


class BatchRow(Struct, frozen=True, kw_only=True):
    """A batch without its bytes; `composition` counts sequences or fragments by environment.

    `shares` are the environments' target shares when it was formed. `padding` is the fraction of
    its positions wasted by padding to the longest sequence; null for fragments. `staleness`
    counts items by policy versions behind. `lease_expiries` counts expired leases.
    """

    id: str
    ordinal: int
    kind: Literal["groups", "fragments"]
    sampler: str
    """Sampler of a sampled batch; empty for a batch in queue order."""
    state: Literal["leased", "returned", "quarantined", "confirmed", "dropped"]
    trainer: str | None
    fence: int
    epoch: int
    policy_step: int
    leased_at: datetime
    lease_expires_at: datetime
    delivered_at: datetime | None
    settled_at: datetime | None
    lease_expiries: int
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
    """Environment mix of a run's batches."""

    batch_size: int | None
    dry_deadline_seconds: float | None
    environments: list[EnvironmentMixing]


class PreviewAnswer(Struct, frozen=True, kw_only=True):
    """Composition of the next batch, or the reason why none is ready.

    `reason` is null if a batch is ready. `retried_batch` is the id of a batch whose lease expired:
    it is served first, unchanged. `sizes` counts groups by sequences. `padding` is the fraction
    of positions that padding to the longest sequence would waste.
    """

    reason: Literal["unregistered", "too_few", "no_exact_fill", "waiting_for_minimum"] | None
    batch_size: int | None
    queued_sequences: int
    waiting_for: list[int]
    waits_until: datetime | None
    retried_batch: str | None
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


class BatchList(Page[BatchRow], frozen=True, kw_only=True):
    """Batches, newest first."""
