"""API schemas of groups."""

from datetime import datetime

from msgspec import Struct

from web.rules.pages import Page


class MarkOfGroup(Struct, frozen=True, kw_only=True):
    """Label and note of a group."""

    label: int | None
    """1 to 9."""
    note: str
    """Plain text; empty if there is none."""
    changed_by: str
    """Name of the user or token that last changed the mark."""
    changed_at: datetime


class GroupSummary(Struct, frozen=True, kw_only=True):
    """A trajectory group without its content."""

    id: int
    state: str
    drop_reason: str
    env_id: int | None
    environment: str
    """Name of the environment; empty if none is registered."""
    lesson: str
    worker: str
    example: str
    producer: str
    epoch: int
    policy_step: int | None
    batch: str | None
    step: int | None
    """Ordinal of its batch, which is the served step."""
    position: int | None
    """Position in its batch."""
    received_at: datetime
    size_bytes: int
    sequences: int
    tokens: int
    """Total of all sequences."""
    longest_tokens: int
    score_mean: float | None
    score_min: float | None
    score_max: float | None
    score_std: float | None
    scores: list[float | None]
    """Scores of its first 64 sequences; empty until it is digested."""
    lengths: list[int]
    flags: list[str]
    excerpt: str
    """Beginning of its prompt."""
    is_digested: bool
    """True once flags, lesson, worker, scores and excerpt are known, seconds after arrival."""
    has_bytes: bool
    """True if its content was stored on arrival."""
    prompt: str
    """Digest of its prompt, equal for equal prompts; empty if unknown."""
    mark: MarkOfGroup | None
    """Null if the group is unmarked."""


class GroupList(Page[GroupSummary], frozen=True, kw_only=True):
    """A page of groups."""

    is_partial: bool
    """True if the page ends early because the search reached its limit; `next` continues."""


class FacetValue(Struct, frozen=True, kw_only=True):
    """A facet value and the number of groups that have it."""

    value: str
    label: str
    groups: int


class ScoreBins(Struct, frozen=True, kw_only=True):
    """A histogram with bins of equal width."""

    least: float
    most: float
    counts: list[int]


class GroupFacets(Struct, frozen=True, kw_only=True):
    """Facet counts and histograms of the newest groups."""

    examined: int
    """Number of groups examined: the newest, at most 10,000."""
    matching: int
    """Number of examined groups that match the filter."""
    total: int
    """Number of groups that the run has accepted."""
    oldest_at: datetime | None
    """Arrival time of the oldest examined group."""
    undigested: int
    """Number of groups not digested yet, counted up to 10,000."""
    facets: dict[str, list[FacetValue]]
    histograms: dict[str, ScoreBins]


class BatchOfGroup(Struct, frozen=True, kw_only=True):
    """The batch that holds a group."""

    id: str
    step: int
    state: str
    trainer: str
    policy_step: int
    """Policy version of the run when the batch was leased."""
    epoch: int
    staleness: int | None
    """Policy versions by which the group was behind; null across epochs."""
    leased_at: datetime
    """Start of the latest lease; `lease_expiries` counts expired leases."""
    lease_expires_at: datetime
    lease_expiries: int
    delivered_at: datetime | None
    """Time at which its last byte was sent."""
    settled_at: datetime | None
    """Time of its acknowledgement or drop."""


class VersionOfGroup(Struct, frozen=True, kw_only=True):
    """The policy version that sampled a group."""

    id: int
    epoch: int
    step: int
    published_at: datetime
    sha256: str


class GroupDetail(Struct, frozen=True, kw_only=True):
    """A group with its origin and its batch."""

    group: GroupSummary
    batch: BatchOfGroup | None
    version: VersionOfGroup | None
    """Null if the policy version is not on record."""
    env_spec: str
    seed: int | None
    """Seed of the run; null for runs with external environments."""
    newer: int | None
    """Id of the next group by arrival."""
    older: int | None
