"""Shape what the routes of replay and of followers take and give."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from buffer.ingest.schemas.scored_data import ScoredData
from rolldeck.wire import FollowHead


class PriorityUpdate(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How urgent a fragment is; of several in one chunk the most urgent counts."""

    id: Annotated[int, Meta(ge=1, le=(1 << 63) - 1)]
    priority: Annotated[float, Meta(gt=0, le=1e300)]


class UpdatePriorities(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Priorities of fragments, by the ids in a batch's head; with `batch`, of that batch only."""

    batch: str | None = None
    updates: Annotated[list[PriorityUpdate], Meta(min_length=1, max_length=65_536)]


class PrioritiesUpdated(Struct, frozen=True, kw_only=True):
    """Chunks that have a new priority; others cannot be sampled any more, or are not there."""

    updated: int


class PutFollower(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a follower reads: of groups `env_id` and `min_score` count, of fragments the other."""

    start: Literal["earliest", "latest"] = "earliest"
    env_id: Annotated[int, Meta(ge=0, le=(1 << 31) - 1)] | None = None
    environment: Annotated[str, Meta(max_length=200)] = ""
    min_score: Annotated[float, Meta(ge=-1e300, le=1e300)] | None = None
    """Least mean score of a group."""


class FetchFollowed(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many items to return at most, and how long to wait for the first."""

    count: Annotated[int, Meta(ge=1, le=1024)] = 64
    wait_seconds: Annotated[float, Meta(ge=0, le=60)] = 0.0


class AckFollowed(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The cursor that came with the items."""

    cursor: str


class FollowerRow(Struct, frozen=True, kw_only=True):
    """A follower and its place; `lag` counts the items behind it, up to 100,000."""

    name: str
    env_id: int | None
    environment: str
    min_score: float | None
    cursor: str
    lag: int
    created_at: datetime
    acked_at: datetime | None


class FollowerList(Struct, frozen=True, kw_only=True):
    """Followers by name."""

    results: list[FollowerRow]


class JsonFollowed(Struct, frozen=True, kw_only=True):
    """Followed trajectory groups in JSON."""

    follower: FollowHead
    items: list[ScoredData]
