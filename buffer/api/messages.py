"""Shape what this app's API answers, for the schema and for typed clients."""

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from buffer.wire.queues import EnvironmentMixing


class Message(Struct, frozen=True, kw_only=True):
    """Greeting."""

    message: str


class RegisteredTrainer(Struct, frozen=True, kw_only=True):
    """Answer to ``POST /register``."""

    uuid: int


class RegisteredEnvironment(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Answer to ``POST /register-env``; only `status` until a trainer has started."""

    status: str
    env_id: int | None = None
    wandb_name: str | None = None
    checkpoint_dir: str | None = None
    starting_step: int | None = None
    checkpoint_interval: int | None = None
    num_steps: int | None = None


class Outcome(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Answer to ``POST /disconnect-env``."""

    status: Literal["success", "failure"]
    error: str | None = None


class WandbNames(Struct, frozen=True, kw_only=True):
    """Answer to ``GET /wandb_info``."""

    group: str | None
    project: str | None


class RunSizes(Struct, frozen=True, kw_only=True):
    """Answer to ``GET /info``: sequences in a batch, tokens in a sequence; -1 before both."""

    batch_size: int
    max_token_len: int


class RunState(Struct, frozen=True, kw_only=True):
    """Answer to ``GET /status``: batches served, groups queued."""

    current_step: int
    queue_size: int


class EnvironmentState(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Answer to ``/status-env``; sizes count groups of the environment's size.

    `paced` is there, and true, while the queue is over its tolerance: then `queue_size` leaves
    as much room as this environment has of its share.
    """

    current_step: int
    queue_size: int
    unallocated_fraction: float
    self_queue_size: int
    max_group_size: int
    env_weight: float
    paced: bool = False


class PushAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Answer to a push; buffer sizes count sequences that wait for others."""

    status: Literal["received", "buffered"]
    dropped: dict[str, int] | None = None
    """Groups that came too late or too early to train on, by reason."""
    buffer_size: int | None = None
    groups_processed: int | None = None
    buffered: int | None = None
    last_buffer_size: int | None = None


class ScoredData(Struct, frozen=True, kw_only=True):
    """One trajectory group; S sequences of T tokens."""

    tokens: list[list[int]]
    masks: list[list[int]]
    scores: list[float]
    advantages: list[list[float]] | None = None
    ref_logprobs: list[list[float]] | None = None
    messages: list[list[dict[str, Any]]] | None = None
    generation_params: dict[str, Any] | None = None
    inference_logprobs: list[list[float]] | None = None
    overrides: list[dict[str, Any]] | None = None
    group_overrides: dict[str, Any] | None = None
    images: Any = None
    env_id: int | None = None
    distill_token_ids: list[list[list[int]]] | None = None
    distill_logprobs: list[list[list[float]]] | None = None


class StockBatch(Struct, frozen=True, kw_only=True):
    """Answer to ``GET /batch``."""

    batch: list[ScoredData] | None


class HTTPValidationError(Struct, frozen=True, kw_only=True):
    """FastAPI's 422: what is wrong and where."""

    detail: list[dict[str, Any]]


class Detail(Struct, frozen=True, kw_only=True):
    """FastAPI's other errors."""

    detail: str


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


class LimitsAnswer(Struct, frozen=True, kw_only=True):
    """The largest of everything that passes; units are in the names."""

    max_body_bytes: int
    max_decompressed_bytes: int
    max_decompression_ratio: int
    max_weights_bytes: int
    max_header_bytes: int
    max_header_seconds: int
    max_idle_seconds: int
    max_wait_seconds: int
    max_json_depth: int
    max_json_values: int
    max_groups_per_push: int
    max_sequences_per_group: int
    max_tokens_per_sequence: int
    max_tokens_per_group: int
    max_values_per_group: int
    max_queued_groups: int
    max_queued_fragments: int
    max_run_bytes: int
    min_free_disk_bytes: int
    """Below this much free disk nothing is taken in."""
    max_token_id: int


class SegmentRow(Struct, frozen=True, kw_only=True):
    """A stretch of time whose payloads are dropped together."""

    number: int
    opened_at: datetime
    sealed_at: datetime | None
    dropped_at: datetime | None
    cleared_at: datetime | None
    items: int
    size_bytes: int


class SegmentList(Struct, frozen=True, kw_only=True):
    """Segments, newest first."""

    results: list[SegmentRow]


class AskArchive(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which settled items an archive holds; what is left out means all."""

    states: Annotated[list[Literal["served", "dropped"]], Meta(max_length=2)] = []
    steps: Annotated[str, Meta(max_length=32)] = ""
    """Served steps as ``first:last``, both inside; either may be left out."""
    env_ids: Annotated[list[int], Meta(max_length=1024)] | None = None


class AskRestoration(AskArchive, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which archive is restored, and which of its items."""

    archive: Annotated[int, Meta(ge=1, le=2**63 - 1)]


class ArchiveRow(Struct, frozen=True, kw_only=True):
    """An archive that was asked for, or its restoration into a run."""

    id: int
    verb: Literal["export", "restore"]
    source: int | None
    """Of a restoration: the archive."""
    state: Literal["queued", "working", "done", "failed", "expired"]
    window: dict[str, Any]
    report: dict[str, Any]
    """Counts, as far as it is."""
    error: str
    has_file: bool
    asked_by: str
    created_at: datetime
    finished_at: datetime | None


class ArchiveList(Struct, frozen=True, kw_only=True):
    """Archives, newest first."""

    results: list[ArchiveRow]
