"""Let others than the trainers read everything that a run accepts, each at its own pace."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

from django.db import connection, transaction

from buffer.followers import queries as followers
from buffer.followers.models import Follower
from buffer.followers.queries import FollowerNotFound, item_exists
from buffer.followers.rules import START, Cursor, InvalidCursor
from runs.models import Run

Start = Literal["earliest", "latest"]
_MAX_ID: Final = (1 << 63) - 1

_NOW: Final = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text"
_ADVANCE: Final = """
    UPDATE buffer_follower
    SET cursor_written_in = %(written_in)s::text::xid8, cursor_id = %(item)s, acked_at = %(now)s
    WHERE run_id = %(run)s AND name = %(name)s
    AND (cursor_written_in, cursor_id) <= (%(written_in)s::text::xid8, %(item)s::bigint)"""


class FollowerExists(Exception):
    """A follower of this name reads something else."""

    field = "name"


class CursorBehind(Exception):
    """The follower has confirmed a later place already."""

    field = "cursor"


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """What of a run a follower reads; the defaults are everything."""

    env_id: int | None = None
    environment: str = ""
    min_score: float | None = None


@transaction.atomic
def follow(*, run: Run, name: str, start: Start, only: Filter, now: datetime) -> Follower:
    """Return the follower of this name, which is made if there is none; it keeps its place.

    Args:
        run: The run.
        name: Unique in the run.
        start: Where a new follower begins: with everything that is kept, or with what comes
            from now on (and perhaps some items of the last moments before).
        only: What it reads.
        now: Time of the request.

    Raises:
        FollowerExists: If there is one that reads something else.
    """
    cursor = START if start == "earliest" else _end()
    wanted: dict[str, Any] = {
        "env_id": only.env_id,
        "environment": only.environment,
        "min_score": only.min_score,
    }
    follower, _ = Follower.objects.get_or_create(
        run=run,
        name=name,
        defaults=wanted
        | {
            "cursor_written_in": str(cursor.written_in),
            "cursor_id": cursor.item_id,
            "created_at": now,
        },
    )
    if {field: getattr(follower, field) for field in wanted} != wanted:
        raise FollowerExists(f"{name!r} reads something else: delete it first")
    return follower


def _end() -> Cursor:
    """Return a place behind everything whose transaction is over and before all others."""
    with connection.cursor() as cursor:
        cursor.execute(_NOW)
        (oldest_open,) = cursor.fetchone()
    return Cursor(int(oldest_open) - 1, _MAX_ID)


@transaction.atomic
def confirm_read(*, run: Run, name: str, cursor: str, now: datetime) -> Follower:
    """Advance a follower to a place that it was given; the same place again is fine.

    Raises:
        InvalidCursor: If the run has no item there.
        CursorBehind: If the follower is further already.
        FollowerNotFound: If there is no such follower.
    """
    place = Cursor.parse(cursor)
    if not item_exists(run, place):
        raise InvalidCursor(f"{cursor!r} names no item of {run.name}")
    with connection.cursor() as sql:
        sql.execute(
            _ADVANCE,
            {
                "run": run.pk,
                "name": name,
                "written_in": str(place.written_in),
                "item": place.item_id,
                "now": now,
            },
        )
        advanced = sql.rowcount == 1
    follower = followers.named(run, name)
    if not advanced:
        raise CursorBehind(f"{name!r} is behind {cursor!r} no more")
    return follower


def unfollow(*, run: Run, name: str) -> None:
    """Forget a follower and its place.

    Raises:
        FollowerNotFound: If there is no such follower.
    """
    if not Follower.objects.filter(run=run, name=name).delete()[0]:
        raise FollowerNotFound(f"{run.name} has no follower {name!r}")
