"""Followers of a run, and the stream of accepted items that they read."""

from dataclasses import dataclass
from typing import Any, Final

from django.db import connection

from buffer.followers.models import Follower
from buffer.followers.rules import Cursor
from buffer.items.queries import kind_of
from buffer.items.rules.states import ItemKind
from buffer.items.services import TABLES
from buffer.payloads.services.contents import StoredContent, readable_contents
from runs.lifecycle.models import Run
from web.rules.errors import NotFound
from web.sql import filled, statements_of

SQL: Final = statements_of("buffer")


class FollowerNotFound(NotFound):
    """The run has no follower with this name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamChunk:
    """Consecutive items of a stream; items without bytes are omitted."""

    ids: list[int]
    contents: list[StoredContent]
    cursor: Cursor
    """Cursor of the last item, readable or not."""


def named(run: Run, name: str) -> Follower:
    """Return the follower with this name.

    Raises:
        FollowerNotFound: If it does not exist.
    """
    follower = Follower.objects.filter(run=run, name=name).first()
    if follower is None:
        raise FollowerNotFound(f"{run.name} has no follower {name!r}")
    return follower


def of_run(run: Run) -> list[Follower]:
    """Return a run's followers, ordered by name."""
    return list(Follower.objects.filter(run=run).order_by("name"))


def read_on(run: Run, follower: Follower, *, count: int) -> StreamChunk | None:
    """Return up to `count` items after a follower's cursor, or None if there are none."""
    kind = kind_of(run)
    with connection.cursor() as cursor:
        cursor.execute(
            _query(SQL["read_items_after"], kind, follower),
            _values(run, follower) | {"count": count},
        )
        rows: list[tuple[int, int]] = cursor.fetchall()
    if not rows:
        return None
    found = readable_contents(kind, [item_id for _, item_id in rows])
    ids = [item_id for _, item_id in rows if item_id in found]
    return StreamChunk(
        ids=ids, contents=[found[item_id] for item_id in ids], cursor=Cursor(*rows[-1])
    )


def lag(run: Run, follower: Follower) -> int:
    """Return the number of items that a follower has not acknowledged, up to 100,000."""
    with connection.cursor() as cursor:
        cursor.execute(
            _query(SQL["count_items_after"], kind_of(run), follower), _values(run, follower)
        )
        (items,) = cursor.fetchone()
    return int(items)


def item_exists(run: Run, place: Cursor) -> bool:
    """Return whether the run has an item at this cursor."""
    with connection.cursor() as cursor:
        cursor.execute(
            filled(SQL["item_exists"], table=TABLES[kind_of(run)]),
            {"run": run.pk, "item": place.item_id, "written_in": str(place.written_in)},
        )
        (exists,) = cursor.fetchone()
    return bool(exists)


def _query(template: str, kind: ItemKind, follower: Follower) -> str:
    only = ""
    if kind is ItemKind.FRAGMENTS and follower.environment:
        only += " AND i.environment = %(environment)s"
    if kind is ItemKind.GROUPS and follower.env_id is not None:
        only += " AND i.env_id = %(env_id)s"
    if kind is ItemKind.GROUPS and follower.min_score is not None:
        only += " AND i.score_mean >= %(min_score)s"
    return filled(template, table=TABLES[kind], only=only)


def _values(run: Run, follower: Follower) -> dict[str, Any]:
    return {
        "run": run.pk,
        "written_in": str(follower.cursor_written_in),
        "item": follower.cursor_id,
        "environment": follower.environment,
        "env_id": follower.env_id,
        "min_score": follower.min_score,
    }
