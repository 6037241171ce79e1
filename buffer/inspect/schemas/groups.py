"""Shape what the API says of groups, for the schema and for typed clients."""

from datetime import datetime

from msgspec import Struct


class MarkOfGroup(Struct, frozen=True, kw_only=True):
    """What people say of a group."""

    label: int | None
    """1 to 9."""
    is_pinned: bool
    note: str
    sets: list[str]
    """Names of the sets that it is in."""
    changed_by: str
    """Who marked it last; empty where it is only in sets."""
    changed_at: datetime | None


class GroupSummary(Struct, frozen=True, kw_only=True):
    """A trajectory group as lists show it; sizes count sequences and tokens."""

    id: int
    state: str
    drop_reason: str
    env_id: int | None
    environment: str
    """Name of the environment; empty where nobody registered one."""
    lesson: str
    worker: str
    example: str
    producer: str
    epoch: int
    policy_step: int | None
    batch: str | None
    step: int | None
    """Ordinal of the batch that holds it: the served step."""
    position: int | None
    """In its batch."""
    received_at: datetime
    size_bytes: int
    sequences: int
    tokens: int
    """Over all sequences."""
    longest_tokens: int
    score_mean: float | None
    score_min: float | None
    score_max: float | None
    score_std: float | None
    scores: list[float | None]
    """Of its first 64 sequences; empty until it is digested."""
    lengths: list[int]
    flags: list[str]
    excerpt: str
    """How its prompt begins."""
    is_digested: bool
    """Flags, lesson, worker, scores and excerpt are known; they come seconds after the group."""
    has_bytes: bool
    """Its content was kept when it came in."""
    prompt: str
    """Digest of its prompt: the same for whoever was asked the same; empty where nobody knows."""
    mark: MarkOfGroup | None
    """Null: nobody has said anything of it."""
    place: str
    """Where it stands in this list: a cursor."""


class GroupList(Struct, frozen=True, kw_only=True):
    """A page of groups."""

    results: list[GroupSummary]
    next: str
    """Cursor of the next page; empty at the end."""
    is_partial: bool
    """The page ends early: so many groups were looked through. `next` looks further."""


class FacetValue(Struct, frozen=True, kw_only=True):
    """How many groups have a value."""

    value: str
    label: str
    groups: int


class ScoreBins(Struct, frozen=True, kw_only=True):
    """How a number is spread, in bins of equal width."""

    least: float
    most: float
    counts: list[int]


class GroupFacets(Struct, frozen=True, kw_only=True):
    """What the newest groups of a list have in common."""

    looked_at: int
    """Groups that were counted: the newest ones, 10,000 at most."""
    matching: int
    """Of those, how many meet the filter."""
    total: int
    """Groups that the run ever accepted."""
    oldest_at: datetime | None
    """When the oldest counted group came in."""
    undigested: int
    """Groups whose content nobody has looked into yet, counted to 10,000."""
    facets: dict[str, list[FacetValue]]
    histograms: dict[str, ScoreBins]


class BatchOfGroup(Struct, frozen=True, kw_only=True):
    """The batch that holds a group."""

    id: str
    step: int
    state: str
    trainer: str
    policy_step: int
    """The run's version when it was handed out."""
    epoch: int
    staleness: int | None
    """Versions by which the group was behind; null across epochs."""
    leased_at: datetime
    """The last time: earlier leases that ran out are in `lapses`."""
    lease_expires_at: datetime
    lapses: int
    delivered_at: datetime | None
    """When its last byte had left."""
    settled_at: datetime | None
    """Confirmed by its trainer, or dropped."""


class VersionOfGroup(Struct, frozen=True, kw_only=True):
    """The weights that sampled a group."""

    id: int
    epoch: int
    step: int
    published_at: datetime
    sha256: str


class GroupDetail(Struct, frozen=True, kw_only=True):
    """A group and where it came from and went."""

    group: GroupSummary
    batch: BatchOfGroup | None
    version: VersionOfGroup | None
    """Null where the run has no such weights on record."""
    env_spec: str
    seed: int | None
    """Of the run; null for runs of outside environments."""
    newer: int | None
    """The group that came in next."""
    older: int | None
