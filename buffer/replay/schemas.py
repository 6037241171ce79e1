"""API schemas of replay and of followers."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from buffer.ingest.schemas.groups import ScoredData
from rolldeck.wire import FollowHead
from web.rules.pages import Page


class PriorityUpdate(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Priority of a fragment; a chunk takes the highest priority of its fragments."""

    id: Annotated[int, Meta(ge=1, le=(1 << 63) - 1)]
    priority: Annotated[float, Meta(gt=0, le=1e300)]


class UpdatePriorities(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Priorities by the item ids of a batch's head; `batch` restricts them to that batch."""

    batch: str | None = None
    updates: Annotated[list[PriorityUpdate], Meta(min_length=1, max_length=65_536)]


class PrioritiesUpdated(Struct, frozen=True, kw_only=True):
    """Number of updated chunks; missing and no longer sampled chunks are skipped."""

    updated: int


class PutFollower(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Filter of a follower: `env_id` and `min_score` for groups, `environment` for fragments."""

    start: Literal["earliest", "latest"] = "earliest"
    env_id: Annotated[int, Meta(ge=0, le=(1 << 31) - 1)] | None = None
    environment: Annotated[str, Meta(max_length=200)] = ""
    min_score: Annotated[float, Meta(ge=-1e300, le=1e300)] | None = None
    """Minimum mean score of a group."""


class FetchFollowed(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Maximum number of items to return, and how long to wait for the first."""

    count: Annotated[int, Meta(ge=1, le=1024)] = 64
    wait_seconds: Annotated[float, Meta(ge=0, le=60)] = 0.0


class AckFollowed(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Acknowledgement: the cursor delivered with the items."""

    cursor: str


class FollowerRow(Struct, frozen=True, kw_only=True):
    """A follower and its cursor; `lag` counts unread items, up to 100,000."""

    name: str
    env_id: int | None
    environment: str
    min_score: float | None
    cursor: str
    lag: int
    created_at: datetime
    acked_at: datetime | None


class FollowerList(Page[FollowerRow], frozen=True, kw_only=True):
    """Followers, ordered by name."""


class JsonFollowed(Struct, frozen=True, kw_only=True):
    """Followed trajectory groups in JSON."""

    follower: FollowHead
    items: list[ScoredData]
