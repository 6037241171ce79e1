"""Schemas of the API of groups, fragments and their contents."""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from msgspec import UNSET, Meta, Struct, UnsetType

from buffer.inspect.rules.fragment_views import FragmentContent
from buffer.inspect.rules.marks import LONGEST_NOTE, LONGEST_TAG, MOST_AT_ONCE, MOST_TAGS
from web.http.bodies import Reason

# API schemas of fragments.


class FragmentRow(Struct, frozen=True):
    """A fragment without its content."""

    id: int
    slot: str
    """Environment slot and incarnation."""
    number: int
    """Counts the fragments of its slot from 0."""
    contiguous: bool
    environment: str
    worker: str
    epoch: int
    version_min: int
    version_max: int
    """`version_min` to `version_max`: the policy versions that acted in it."""
    steps: int
    """Environment steps, without padding."""
    state: str
    drop_reason: str
    batch: str | None
    step: int | None
    """Ordinal of its batch, from 1."""
    uses: int
    """Number of batches that it was sampled into."""
    received_at: datetime
    size_bytes: int
    has_bytes: bool
    """True if bytes were stored; retention may have removed them since."""


class FragmentSummary(FragmentRow, frozen=True, kw_only=True):
    """A fragment without its content."""

    reward_sum: float | None
    """Null if the fragment is too large for a list or cannot be read."""


class FragmentDetail(Struct, frozen=True, kw_only=True):
    """A fragment with its content, except its steps, and its neighbours."""

    fragment: FragmentSummary
    content: FragmentContent | None
    problem: str
    """Reason why the content is null: its bytes are gone or not a valid fragment."""
    version: int | None
    """Id of the newest policy version that acted in it; null if not on record."""
    before: int | None
    """Id of the previous fragment of the same slot."""
    after: int | None


# API schemas of groups.


class MarkOfGroup(Struct, frozen=True, kw_only=True):
    """Tags and note of a group."""

    tags: list[str]
    """In alphabetical order, at most 20."""
    note: str
    """Plain text; empty if there is none."""
    changed_by: str
    """Name of the user or token that last changed the mark."""
    changed_at: datetime


class GroupFields(Struct, frozen=True):
    """Fields of a trajectory group that its row and its summary share."""

    id: int
    state: str
    drop_reason: str
    env_id: int | None
    lesson: str
    worker: str
    example: str
    producer: str
    epoch: int
    policy_step: int | None
    step: int | None
    """Ordinal of its batch, from 1."""
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
    answer: str
    """Last answer of its first sequence without reasoning; the end of a long one."""
    is_digested: bool
    """True if flags, lesson, worker, scores and texts are known.

    False for groups without content or with unreadable content, and for the newest large groups
    until they are digested, seconds after arrival.
    """
    has_bytes: bool
    """True if its content was stored on arrival; retention may have removed it since."""
    prompt: str
    """Digest of its prompt, equal for equal prompts; empty if unknown."""


class GroupRow(GroupFields, frozen=True):
    """A group without its content, as the database returns it; scores may be NaN."""

    batch_id: UUID | None
    codec: str
    origin: str
    truncated: int
    duplicates: int
    run_id: int
    environment: str
    """Name of the environment; empty if none is registered."""
    facts: str
    """Metadata and overrides by key, as JSON."""
    advantages: list[float | None]
    correct: int | None


class GroupSummary(GroupFields, frozen=True, kw_only=True):
    """A trajectory group without its content."""

    environment: str
    """Name of the environment; empty if none is registered."""
    batch: str | None
    mark: MarkOfGroup | None
    """Null if the group is unmarked."""


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
    outcome: str
    """Whether it was trained on, and if not, why, in words."""
    batch: BatchOfGroup | None
    version: VersionOfGroup | None
    """Null if the policy version is not on record."""
    facts: dict[str, Any]
    """Metadata and overrides by key, such as `meta.difficulty`; a list has the distinct values."""
    env_spec: str
    seed: int | None
    """Seed of the run; null for runs with external environments."""
    newer: int | None
    """Id of the next group by arrival."""
    older: int | None


# API schemas of samples: groups, episodes and fragments.


class SampleRow(Struct, frozen=True, kw_only=True):
    """A trajectory group, an episode of a fleet, or a fragment."""

    kind: Literal["group", "episode", "fragment"]
    id: str
    """Id of the group or fragment, or of the episode: its slot, a slash and its number."""
    run: str
    """Address of the run."""
    run_uid: str
    """Immutable id of the run."""
    project: str | None
    environment: str
    lesson: str = ""
    """Lesson of a group; empty for others."""
    score: float | None = None
    """Mean score of a group, return of an episode, or sum of the rewards of a small fragment."""
    score_min: float | None = None
    """Lowest score of a group; null for others."""
    score_max: float | None = None
    scores: list[float | None] = []
    """Scores of a group's first 64 sequences; empty for others."""
    sequences: int | None = None
    """Number of sequences of a group; null for others."""
    correct: int | None = None
    """Number of correct sequences, by the environment's report; null if it reports none."""
    advantages: list[float | None] = []
    """Mean advantages of a group's first 64 sequences; empty if it has none."""
    columns: dict[str, Any] = {}
    """Metadata and overrides of the requested columns; null where a group has none."""
    length: int | None
    """Tokens of a group's longest sequence, or env steps; null if not reported."""
    worker: str
    epoch: int | None = None
    """Trainer session of `policy_step`; null for episodes."""
    policy_step: int | None
    """Step of the policy version that acted; of a fragment, the newest one."""
    step: int | None = None
    """Ordinal of its batch, from 1."""
    state: str = ""
    """State in the buffer; empty for episodes."""
    why: str = ""
    """Why it was dropped, in words."""
    flags: list[str] = []
    """Anomalies of a group."""
    at: datetime
    """Arrival of a group or fragment, or report of an episode."""
    slot: str = ""
    """Environment slot of a fragment."""
    number: int | None = None
    """Number of a fragment in its slot."""
    excerpt: str = ""
    """Beginning of a group's first prompt; empty for others and for groups without text."""
    answer: str = ""
    """Last answer of its first sequence without reasoning; the end of a long one."""
    is_indexed: bool = True
    """False for a large new group until its texts, scores and anomalies are known."""
    mark: MarkOfGroup | None = None
    """Tags and note of a group; null if it has none."""


# API schemas for tags and notes of groups.

GroupIds = Annotated[list[Annotated[int, Meta(ge=1)]], Meta(max_length=MOST_AT_ONCE)]
Tags = Annotated[
    list[Annotated[str, Meta(min_length=1, max_length=LONGEST_TAG)]], Meta(max_length=MOST_TAGS)
]


class MarkGroups(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Changes to the marks of groups; a note that is omitted keeps its text."""

    groups: GroupIds
    add_tags: Tags = []
    """One line of text each; a group has at most 20."""
    remove_tags: Tags = []
    note: Annotated[str, Meta(max_length=LONGEST_NOTE)] | UnsetType = UNSET
    """Plain text; empty removes the note."""
    reason: Reason = ""


class MarkedGroup(Struct, frozen=True, kw_only=True):
    """A group after a change of its mark."""

    id: int
    mark: MarkOfGroup | None
    """Null if it has neither tags nor a note."""


class MarkedGroups(Struct, frozen=True, kw_only=True):
    """Marks of the named groups, ordered by group id."""

    results: list[MarkedGroup]
