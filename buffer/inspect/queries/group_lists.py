"""Paginated lists of a run's groups, from metadata only."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db import DatabaseError, connection, transaction
from psycopg.errors import QueryCanceled

from buffer.inspect.models import DigestCursor
from buffer.inspect.queries.group_id_ranges import FLAGS, JOINED, VALUE_OF, list_query
from buffer.inspect.rules.group_filter import GroupFilter, ListPosition, Sort
from web.rules.errors import NotFound, Unavailable

ROWS_EXAMINED: Final = 50_000
"""Maximum number of groups that one page searches."""
LAG_COUNTED_TO: Final = 10_000
_STATEMENT_TIMEOUT_MS: Final = 5000
_ROW: Final = """g.id, g.state, g.drop_reason, g.env_id, g.epoch, g.policy_step, g.batch_id,
    b.ordinal, g.position, g.received_at, g.size_bytes, g.sequences, g.tokens, g.longest_tokens,
    g.score_mean, g.score_min, g.score_max, g.score_std, g.producer, g.codec,
    g.segment IS NOT NULL, g.origin, d.group_id IS NOT NULL, COALESCE(d.lesson, ''),
    COALESCE(d.worker, ''), COALESCE(d.example, ''), COALESCE(d.scores, '{{}}'),
    COALESCE(d.lengths, '{{}}'), COALESCE(d.truncated, 0), COALESCE(d.duplicates, 0),
    COALESCE(d.excerpt, ''), COALESCE(replace(d.prompt::text, '-', ''), ''),
    array_remove(ARRAY[{flags}], NULL)""".format(
    flags=", ".join(f"CASE WHEN {test} THEN '{flag}' END" for flag, test in FLAGS.items())
)
_ONE: Final = f"""
    SELECT {_ROW} FROM buffer_trajectorygroup g {JOINED}
    WHERE g.id = %(group)s AND g.run_id = %(run)s"""  # noqa: S608
_LAG: Final = f"""
    SELECT count(*) FROM (
        SELECT 1 FROM buffer_trajectorygroup i
        WHERE i.run_id = %(run)s AND i.segment IS NOT NULL
        AND (i.written_in, i.id) > (%(written_in)s::text::xid8, %(item)s::bigint)
        LIMIT {LAG_COUNTED_TO}
    ) behind"""  # noqa: S608


class GroupNotFound(NotFound):
    """The run has no such group."""


class SearchTooSlow(Unavailable):
    """A query exceeded its time limit; the message suggests how to narrow it."""

    code = "search_too_slow"
    title = "The search takes too long"


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A group without its content."""

    id: int
    state: str
    drop_reason: str
    env_id: int | None
    epoch: int
    policy_step: int | None
    batch_id: UUID | None
    step: int | None
    """Ordinal of its batch."""
    position: int | None
    received_at: datetime
    size_bytes: int
    sequences: int
    tokens: int
    longest_tokens: int
    score_mean: float
    score_min: float
    score_max: float
    score_std: float
    producer: str
    codec: str
    has_bytes: bool
    """True if bytes were stored; retention may have removed them since."""
    origin: str
    is_digested: bool
    """True if the fields below are known."""
    lesson: str
    worker: str
    example: str
    scores: list[float]
    lengths: list[int]
    truncated: int
    duplicates: int
    excerpt: str
    prompt: str
    flags: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPage:
    """A page of a list."""

    rows: list[GroupRow]
    next: ListPosition | None
    """Position of the end of the page; None at the end of the list."""
    is_partial: bool
    """True if the page ends early because the search reached its row limit."""


def group_page(
    run_id: int,
    group_filter: GroupFilter,
    *,
    limit: int,
    after: ListPosition | None = None,
    backward: bool = False,
) -> GroupPage:
    """Return a page of groups after a position or, if `backward`, before it, nearest first.

    Raises:
        SearchTooSlow: If the database takes too long.
    """
    found = list_query(run_id, group_filter, rows=ROWS_EXAMINED, after=after, backward=backward)
    query = f"""
        SELECT {_ROW} FROM ({found.source}) g {JOINED}
        WHERE {" AND ".join(found.tests.values()) or "TRUE"}
        ORDER BY {found.order} LIMIT %(limit)s"""  # noqa: S608 made here
    with bounded_cursor() as cursor:
        cursor.execute(query, found.params | {"limit": limit + 1})
        rows = [GroupRow(*row) for row in cursor.fetchall()]
        if len(rows) > limit:
            rows = rows[:limit]
            return GroupPage(
                rows=rows, next=list_position(rows[-1], group_filter), is_partial=False
            )
        # The last group of the source, if the search was cut off there.
        value = VALUE_OF.get(group_filter.sort, "NULL")
        cursor.execute(
            f"SELECT {value}, id FROM ({found.source}) g OFFSET {ROWS_EXAMINED - 1}",  # noqa: S608
            found.params,
        )
        last = cursor.fetchone()
    return GroupPage(
        rows=rows,
        next=None if last is None else ListPosition(*last),
        is_partial=last is not None,
    )


def list_position(row: GroupRow, group_filter: GroupFilter) -> ListPosition:
    """Return the position of a row in a list."""
    if group_filter.sort is Sort.NEWEST:
        return ListPosition(None, row.id)
    return ListPosition(float(getattr(row, VALUE_OF[group_filter.sort])), row.id)


def group_row(run_id: int, group_id: int) -> GroupRow:
    """Return a group of a run.

    Raises:
        GroupNotFound: If the run has no such group.
    """
    with connection.cursor() as cursor:
        cursor.execute(_ONE, {"run": run_id, "group": group_id})
        row = cursor.fetchone()
    if row is None:
        raise GroupNotFound(f"the run has no group {group_id}")
    return GroupRow(*row)


def digest_lag(run_id: int) -> int:
    """Return the number of groups with bytes that are not digested yet, up to 10,000."""
    cursor = DigestCursor.objects.filter(run_id=run_id).first()
    place = ("0", 0) if cursor is None else (str(cursor.written_in), cursor.item_id)
    with connection.cursor() as sql:
        sql.execute(_LAG, {"run": run_id, "written_in": place[0], "item": place[1]})
        (behind,) = sql.fetchone()
    return int(behind)


@contextmanager
def bounded_cursor() -> Iterator[Any]:
    """Provide a database cursor with a statement timeout of 5 s.

    Raises:
        SearchTooSlow: If a statement exceeds the timeout.
    """
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(f"SET LOCAL statement_timeout = {_STATEMENT_TIMEOUT_MS}")
            # JIT compilation and parallel workers cost more than the query itself.
            cursor.execute("SET LOCAL jit = off; SET LOCAL max_parallel_workers_per_gather = 0")
            yield cursor
    except DatabaseError as error:
        if isinstance(error.__cause__, QueryCanceled):
            raise SearchTooSlow(
                f"the search exceeded {_STATEMENT_TIMEOUT_MS // 1000} s: "
                "use rarer words or filter by batch"
            ) from error
        raise
