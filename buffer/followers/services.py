"""Followers: named readers of everything that a run accepts, each with its own cursor."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

from django.db import connection, transaction

from buffer.followers import queries as followers
from buffer.followers.models import Follower
from buffer.followers.queries import FollowerNotFound, item_exists
from buffer.followers.rules import START, Cursor, InvalidCursor
from runs.lifecycle.models import Run
from web.rules.errors import Conflict
from web.sql import statements_of

SQL: Final = statements_of("buffer")


Start = Literal["earliest", "latest"]
_MAX_ID: Final = (1 << 63) - 1


class FollowerExists(Conflict):
    """A follower with this name has another filter."""

    code = "follower_exists"
    title = "Name taken"
    field = "name"


class CursorBehind(Conflict):
    """The follower has already acknowledged a later cursor."""

    code = "cursor_behind"
    title = "A later position is confirmed"
    field = "cursor"


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Filter of a follower; by default all items."""

    env_id: int | None = None
    environment: str = ""
    min_score: float | None = None


@transaction.atomic
def follow(*, run: Run, name: str, start: Start, only: Filter, now: datetime) -> Follower:
    """Return the follower with this name; creates it if needed, and keeps an existing cursor.

    Args:
        run: The run.
        name: Unique name in the run.
        start: Start of a new follower: all stored items, or items from now on, possibly
            including a few earlier ones.
        only: Filter of the follower.
        now: Time of the request.

    Raises:
        FollowerExists: If it exists with another filter.
    """
    cursor = START
    if start != "earliest":
        # After all finished transactions, and before all open ones.
        with connection.cursor() as sql:
            sql.execute(SQL["oldest_open_transaction"])
            (oldest_open,) = sql.fetchone()
        cursor = Cursor(int(oldest_open) - 1, _MAX_ID)
    fields: dict[str, Any] = {
        "env_id": only.env_id,
        "environment": only.environment,
        "min_score": only.min_score,
    }
    follower, _ = Follower.objects.get_or_create(
        run=run,
        name=name,
        defaults=fields
        | {
            "cursor_written_in": str(cursor.written_in),
            "cursor_id": cursor.item_id,
            "created_at": now,
        },
    )
    if {field: getattr(follower, field) for field in fields} != fields:
        raise FollowerExists(f"{name!r} exists with another filter: delete it first")
    return follower


@transaction.atomic
def confirm_read(*, run: Run, name: str, cursor: str, now: datetime) -> Follower:
    """Advance a follower to a delivered cursor; idempotent for the same cursor.

    Raises:
        InvalidCursor: If the run has no item at this cursor.
        CursorBehind: If the follower is already past this cursor.
        FollowerNotFound: If the follower does not exist.
    """
    place = Cursor.parse(cursor)
    if not item_exists(run, place):
        raise InvalidCursor(f"{cursor!r} is not a cursor of an item of {run.name}")
    with connection.cursor() as sql:
        sql.execute(
            SQL["advance_follower"],
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
        raise CursorBehind(f"{name!r} is already past {cursor!r}")
    return follower


def unfollow(*, run: Run, name: str) -> None:
    """Delete a follower and its cursor.

    Raises:
        FollowerNotFound: If the follower does not exist.
    """
    if not Follower.objects.filter(run=run, name=name).delete()[0]:
        raise FollowerNotFound(f"{run.name} has no follower {name!r}")
