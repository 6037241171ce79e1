"""Lists of a run's fragments, and access to single fragments."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.db import connection

from buffer.inspect.queries.group_lists import bounded_cursor
from buffer.inspect.rules.fragment_views import DecodedFragment, reward_sum
from buffer.inspect.rules.group_filter import GroupFilter
from buffer.inspect.schemas import FragmentRow
from buffer.items.rules.states import ItemKind
from buffer.payloads.services.contents import PayloadMissing, content_head, readable_contents
from web.rules.errors import NotFound

ROWS_EXAMINED: Final = 20_000
"""Maximum number of fragments that one page searches, newest first."""
SUMMED_BYTES: Final = 256 << 10
"""Largest fragment whose rewards are summed for a list; for larger ones open the fragment."""
SUMMED_BYTES_IN_ALL: Final = 8 << 20
_ALL: Final = (1 << 31) - 1
ROW: Final = """f.id, f.slot, f.number, f.contiguous, f.environment, f.worker, f.epoch,
    f.version_min, f.version_max, f.steps, f.state, f.drop_reason, f.batch_id::text, b.ordinal,
    f.uses, f.received_at, f.size_bytes, f.segment IS NOT NULL"""
_OF_RUN: Final = """SELECT * FROM buffer_fragmentchunk
    WHERE run_id = %(run)s AND segment IS NOT NULL AND id < %(before)s
    ORDER BY id DESC LIMIT %(rows)s"""
# A fragment may be sampled into several batches; each of them lists it.
_OF_BATCH: Final = """SELECT * FROM buffer_fragmentchunk
    WHERE run_id = %(run)s AND id < %(before)s AND id IN (
        SELECT id FROM buffer_fragmentchunk WHERE batch_id = %(batch)s
        UNION SELECT item_id FROM buffer_batchuse WHERE batch_id = %(batch)s)
    ORDER BY id DESC LIMIT %(rows)s"""
_OF_IDS: Final = """SELECT * FROM buffer_fragmentchunk
    WHERE run_id = %(run)s AND id < %(before)s AND id = ANY(%(ids)s::bigint[])
    ORDER BY id DESC LIMIT %(rows)s"""
_ONE: Final = f"""SELECT {ROW} FROM buffer_fragmentchunk f
    LEFT JOIN buffer_batch b ON b.id = f.batch_id
    WHERE f.id = %(fragment)s AND f.run_id = %(run)s"""  # noqa: S608 made here
_BESIDE: Final = """SELECT number, id FROM buffer_fragmentchunk
    WHERE run_id = %(run)s AND slot = %(slot)s AND number = ANY(%(numbers)s::bigint[])"""


class FragmentNotFound(NotFound):
    """The run has no such fragment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FragmentPage:
    """A page of a list."""

    rows: list[FragmentRow]
    rewards: dict[int, float]
    """Sum of the rewards by fragment id, for fragments small enough to open."""
    next: int | None
    """Id of the last fragment searched; None at the end of the list."""
    is_partial: bool
    """True if the page ends early because the search reached its row limit."""


def fragment_page(
    run_id: int,
    group_filter: GroupFilter,
    *,
    limit: int,
    after: int | None = None,
    ids: Sequence[int] | None = None,
) -> FragmentPage:
    """Return the next page of a run's fragments with stored bytes, newest first.

    Args:
        run_id: The run.
        group_filter: The filter; only its states, workers, versions, batch and text (a prefix of
            the slot's name) apply to fragments.
        limit: Maximum number of rows.
        after: Only fragments with a smaller id.
        ids: Only these fragments; None for all.

    Raises:
        SearchTooSlow: If the database takes too long.
    """
    tests, params = _conditions(group_filter)
    params |= {
        "run": run_id,
        "before": 1 << 62 if after is None else after,
        "rows": ROWS_EXAMINED,
        "limit": limit + 1,
        "batch": group_filter.batch,
        "ids": [] if ids is None else list(ids),
    }
    source = _OF_RUN if group_filter.batch is None else _OF_BATCH
    if ids is not None:
        source = _OF_IDS
        tests += [] if group_filter.batch is None else ["f.batch_id = %(batch)s"]
    query = f"""
        SELECT {ROW} FROM ({source}) f LEFT JOIN buffer_batch b ON b.id = f.batch_id
        {f"WHERE {' AND '.join(tests)}" if tests else ""}
        ORDER BY f.id DESC LIMIT %(limit)s"""  # noqa: S608 made here
    with bounded_cursor() as cursor:
        cursor.execute(query, params)
        rows = [FragmentRow(*row) for row in cursor.fetchall()]
        is_full = len(rows) > limit
        rows = rows[:limit]
        last = rows[-1].id if is_full else _last_examined(cursor, source, params)
    return FragmentPage(
        rows=rows,
        rewards=_reward_sums(rows),
        next=last,
        is_partial=not is_full and last is not None,
    )


def _last_examined(cursor: Any, source: str, params: dict[str, Any]) -> int | None:
    """Return the last fragment searched if the search was cut off, else None."""
    cursor.execute(f"SELECT id FROM ({source}) f OFFSET {ROWS_EXAMINED - 1}", params)  # noqa: S608
    row = cursor.fetchone()
    return None if row is None else int(row[0])


def _conditions(group_filter: GroupFilter) -> tuple[list[str], dict[str, Any]]:
    tests: dict[str, tuple[str, Any]] = {}
    if group_filter.states:
        tests["states"] = "f.state = ANY(%(states)s)", list(group_filter.states)
    if group_filter.workers:
        tests["workers"] = "f.worker = ANY(%(workers)s)", list(group_filter.workers)
    if group_filter.versions.least is not None:
        tests["oldest"] = "f.version_max >= %(oldest)s", group_filter.versions.least
    if group_filter.versions.most is not None:
        tests["newest"] = "f.version_min <= %(newest)s", group_filter.versions.most
    if group_filter.text:
        tests["slot"] = "starts_with(f.slot, %(slot)s)", group_filter.text
    return [test for test, _ in tests.values()], {name: value for name, (_, value) in tests.items()}


def _reward_sums(rows: list[FragmentRow]) -> dict[int, float]:
    """Return the reward sums of small fragments, up to a total size."""
    ids, left = [], SUMMED_BYTES_IN_ALL
    for row in rows:
        if row.has_bytes and row.size_bytes <= min(SUMMED_BYTES, left):
            ids.append(row.id)
            left -= row.size_bytes
    if not ids:
        return {}
    contents = readable_contents(ItemKind.FRAGMENTS, ids)
    sums = {item_id: reward_sum(stored.content) for item_id, stored in contents.items()}
    return {item_id: total for item_id, total in sums.items() if total is not None}


def fragment_row(run_id: int, fragment_id: int) -> FragmentRow:
    """Return a fragment of a run.

    Raises:
        FragmentNotFound: If the run has no such fragment.
    """
    with connection.cursor() as cursor:
        cursor.execute(_ONE, {"run": run_id, "fragment": fragment_id})
        row = cursor.fetchone()
    if row is None:
        raise FragmentNotFound(f"the run has no fragment {fragment_id}")
    return FragmentRow(*row)


def beside(run_id: int, row: FragmentRow) -> tuple[int | None, int | None]:
    """Return the ids of the previous and the next fragment of the same slot."""
    numbers = [row.number - 1, row.number + 1]
    with connection.cursor() as cursor:
        cursor.execute(_BESIDE, {"run": run_id, "slot": row.slot, "numbers": numbers})
        found = dict(cursor.fetchall())
    return found.get(numbers[0]), found.get(numbers[1])


def opened(row: FragmentRow) -> DecodedFragment:
    """Return the decoded content of a fragment.

    Raises:
        FragmentUnreadable: If its bytes are not a valid fragment.
        PayloadMissing: If its bytes were not stored or are lost.
        PayloadExpired: If retention removed them.
    """
    if not row.has_bytes:
        raise PayloadMissing(ItemKind.FRAGMENTS, row.id, why="they were not stored")
    return DecodedFragment(content_head(ItemKind.FRAGMENTS, row.id, _ALL))
