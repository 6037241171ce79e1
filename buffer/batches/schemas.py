"""API schemas of batches, queues and the environment mix."""

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from msgspec import Meta, Struct

from buffer.batches.rules.bias import BiasDistances, BiasSide, ShortGroupCost
from buffer.batches.rules.pacing import PauseGate
from buffer.ingest.schemas.groups import ScoredData
from buffer.items.schemas import LedgerPart
from rolldeck.wire import BatchHead
from runs.lifecycle.schemas import ActionReason
from web.rules.pages import Page


class LimitSetter(Struct, frozen=True, kw_only=True):
    """Author of the current limits."""

    actor: str
    at: datetime
    reason: str
    is_initial: bool
    """True if the limits have not changed since the run was created."""


class EnvironmentQueueRow(Struct, frozen=True, kw_only=True):
    """Queued and waiting items of one environment."""

    env_id: int | None
    name: str
    queued: int
    queued_sequences: int
    waiting: int
    """Number of groups or fragments that wait for others to complete a group or chunk."""
    waiting_sizes: dict[int, int]
    """Number of waiting groups by size in sequences."""
    group_size: int | None
    """Sequences to which waiting groups must sum; null if not registered."""
    oldest_at: datetime | None
    """Arrival time of the head of its queue."""
    waiting_since: datetime | None
    """Arrival time of the oldest waiting group."""


class EnvironmentPushRate(Struct, frozen=True, kw_only=True):
    """Push rate of one environment within the last minute."""

    env_id: int | None
    """Null for groups without an environment, and for fragments."""
    environment: str
    """Name of the environment, for fragments."""
    per_second: float
    """Groups or fragments, including those dropped on arrival; measured over a shorter period
    if there are very many."""
    newest_at: datetime


class BatchItem(Struct, frozen=True, kw_only=True):
    """A group or fragment of a batch without its bytes."""

    id: int
    position: int
    environment: str
    env_id: int | None
    policy_step: int | None
    """Policy version that sampled it; the oldest one for a fragment."""
    staleness: int | None
    """Policy versions by which it was behind the run when the batch was leased."""
    received_at: datetime
    size_bytes: int
    sequences: int
    tokens: int | None
    """Null for fragments."""
    longest_tokens: int | None
    score_mean: float | None
    steps: int | None
    """Environment steps; null for groups."""
    state: str
    drop_reason: str


class EnvironmentMixing(Struct, frozen=True, kw_only=True):
    """Target share, served share and debt of one environment; sizes count sequences.

    `env_id` is null for groups without an environment. `target` is its share by weight,
    `realised` its share of all batches so far. `debt` is what it is still owed; negative if it
    received more. `blocks_since` is the time since which a batch waits for its minimum.
    """

    env_id: int | None
    name: str | None
    connected: bool
    weight: float
    minimum: float
    target: float
    realised: float
    sequences: int
    debt: float
    queued_sequences: int
    blocks_since: datetime | None


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


class FailedPrompt(Struct, frozen=True, kw_only=True):
    """A problem whose rollouts failed most often."""

    environment: str
    example: str
    prompt: str
    """Beginning of the prompt; empty if all rollouts failed."""
    groups: int
    failed: int
    """Failed rollouts."""


class ShortGroupBias(Struct, frozen=True, kw_only=True):
    """Recent groups of which rollouts failed or have no score, at most 5,000."""

    groups: BiasSide
    """Their complete rollouts; a group without any has no length and no score."""
    kept: int
    """Groups that are trained on, shrunken or refilled."""
    failed: int
    """Failed rollouts of the first attempt."""
    against_complete: BiasDistances
    """Distances from the admitted groups."""
    costs: list[ShortGroupCost]
    """Cost of each policy on these groups."""
    prompts: list[FailedPrompt]
    """Problems with the most failed rollouts, at most 10."""
    summary: str


class BiasAnswer(Struct, frozen=True, kw_only=True):
    """Differences between admitted, dropped and served items."""

    admitted: BiasSide
    dropped: BiasSide
    served: BiasSide
    dropped_against_served: BiasDistances
    served_against_admitted: BiasDistances
    short_groups: ShortGroupBias | None
    """What the short-group policies of the run drop; null without such groups."""
    summary: str


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
