"""Lists of a run's fragments, access to single fragments, and search of an episode in them."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

from django.db import connection

from buffer.inspect.queries.sample_lists import (
    Condition,
    Listing,
    bounded_cursor,
    moment,
    numeric,
    or_last,
    read_page,
    rows_of_each,
    rows_of_runs,
    tests_of,
    text,
)
from buffer.inspect.rules.fragment_views import (
    DecodedFragment,
    EpisodePart,
    FragmentUnreadable,
    InvalidEpisodeId,
    Series,
    episode_parts,
    number_in,
    reward_sum,
    series_of,
    slot_and_number,
)
from buffer.inspect.rules.sample_filter import Position, SampleFilter
from buffer.inspect.schemas import FragmentRow
from buffer.items.rules.states import ItemKind
from buffer.payloads.services.contents import PayloadMissing, content_head, readable_contents
from rolldeck.fleet_wire import EPISODE_SLOT_LENGTH
from runs.search.rules import InvalidFilter, Term
from web.rules.errors import NotFound
from web.sql import statements_of

SQL: Final = statements_of("buffer")


ROWS_EXAMINED: Final = 20_000
"""Maximum number of fragments that one page searches, newest first."""
SUMMED_BYTES: Final = 256 << 10
"""Largest fragment whose rewards are summed for a list; for larger ones open the fragment."""
SUMMED_BYTES_IN_ALL: Final = 8 << 20
_ALL: Final = (1 << 31) - 1


class FragmentNotFound(NotFound):
    """The run has no such fragment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FragmentPage:
    """A page of a list."""

    rows: list[FragmentRow]
    runs: list[int]
    """Run of each row."""
    rewards: dict[int, float]
    """Sum of the rewards by fragment id, for fragments small enough to open."""
    next: Position | None
    """Position of the end of the page; None at the end of the list."""
    is_partial: bool
    """True if the page ends early because the search reached its row limit."""


def fragment_page(
    runs: Sequence[int],
    wanted: SampleFilter,
    *,
    limit: int,
    now: datetime,
    after: Position | None = None,
    examined: int = ROWS_EXAMINED,
) -> FragmentPage:
    """Return the next page of the fragments of runs with stored bytes.

    Args:
        runs: Ids of the runs.
        wanted: The filter.
        limit: Maximum number of rows.
        now: Reference time of ages.
        after: Position after which the rows begin; None for the beginning.
        examined: Maximum number of fragments to search.

    Raises:
        InvalidFilter: If it selects an episode in other than one run.
        SearchTooSlow: If the database takes too long.
    """
    params: dict[str, Any] = {"runs": list(runs)}
    if after is not None:
        params |= {"after_value": after.value, "after_id": after.row}
    terms, is_cut = list(wanted.terms), False
    source = "f.segment IS NOT NULL"
    if (episode := wanted.only("episode")) is not None:
        terms.remove(episode)
        ids, is_cut = _of_episodes(runs, episode)
        params["ids"] = ids
        source += " AND f.id = ANY(%(ids)s::bigint[])"
    elif (batch := wanted.only("batch")) is not None:
        terms.remove(batch)
        params["batches"] = list(batch.values)
        # A fragment may be sampled into several batches, each of which lists it.
        source = SQL["is_fragment_of_batches"]
    key, is_descending = wanted.key, wanted.is_descending
    is_of_source = key == "arrived"
    sign, direction = ("<", "DESC") if is_descending or not is_of_source else (">", "ASC")
    beyond = f" AND f.id {sign} %(after_id)s" if is_of_source and after else ""
    tests = list(tests_of(terms, _CONDITIONS, params, now=now).values())
    is_bounded = bool(tests) or not is_of_source
    params["each"] = rows_of_each(
        len(runs), limit=limit, rows=examined if is_bounded else limit + 1
    )
    listing = Listing(
        row=f"g.run_id, {SQL['fragment_row'].replace('f.', 'g.')}",
        source=rows_of_runs(
            f"""SELECT f.* FROM buffer_fragmentchunk f
                WHERE f.run_id = r.run AND {source}{beyond}
                ORDER BY f.id {direction} LIMIT %(each)s""",  # noqa: S608 made of constants
            runs,
            params,
        ),
        joined="LEFT JOIN buffer_batch b ON b.id = g.batch_id JOIN runs_run o ON o.id = g.run_id",
        tests=tests,
        params=params,
        value=_sort_value(key, is_descending=is_descending),
        cast="",
        is_descending=is_descending,
        is_of_source=is_of_source,
    )
    found = read_page(listing, limit=limit, after=after, is_bounded=is_bounded, runs=len(runs))
    rows = [FragmentRow(*row[1:-2]) for row in found.rows]
    return FragmentPage(
        rows=rows,
        runs=[row[0] for row in found.rows],
        rewards=_reward_sums(rows),
        next=found.next,
        is_partial=found.is_partial or is_cut,
    )


def _of_episodes(runs: Sequence[int], term: Term) -> tuple[list[int], bool]:
    """Return the fragments that hold episodes of a run, and whether the search was cut off."""
    if len(runs) != 1:
        raise InvalidFilter(
            f"an episode is found in one run, not in {len(runs)}: add run:NAME",
            start=term.start,
            end=term.end,
        )
    search = EpisodeSearch(runs[0])
    try:
        ids = [held.row.id for value in term.values for held in search.fragments_of(str(value))]
    except InvalidEpisodeId as error:
        raise InvalidFilter(str(error), start=term.start, end=term.end) from error
    return ids, search.is_cut


def _sort_value(key: str, *, is_descending: bool) -> str | None:
    if key == "arrived":
        return None
    if key == "step":
        return or_last("b.ordinal", is_descending=is_descending)
    return {
        "length": "g.steps::float8",
        "version": "g.version_max::float8",
        "env": "g.environment",
        "state": "g.state",
    }.get(key, "o.name")


def _version(operator: str, value: str) -> str:
    """Return the condition that one of the versions that acted in a fragment matches."""
    if operator.startswith("<"):
        return f"g.version_min {operator} {value}"
    if operator.startswith(">"):
        return f"g.version_max {operator} {value}"
    return f"{value} BETWEEN g.version_min AND g.version_max"


_CONDITIONS: Final[dict[str, Condition]] = {
    "env": text("g.environment"),
    "worker": text("g.worker"),
    "state": text("g.state"),
    "reason": text("g.drop_reason"),
    "version": _version,
    "step": numeric("b.ordinal"),
    # The rewards of a fragment are in its bytes only.
    "length": numeric("g.steps"),
    "arrived": moment("g.received_at"),
    "batch": lambda _, value: f"g.batch_id = {value}::uuid",
    "slot": lambda operator, value: (
        f"starts_with(g.slot, {value})" if operator == "~" else f"g.slot = {value}"
    ),
}


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
        cursor.execute(SQL["fragment"], {"run": run_id, "fragment": fragment_id})
        row = cursor.fetchone()
    if row is None:
        raise FragmentNotFound(f"the run has no fragment {fragment_id}")
    return FragmentRow(*row)


def beside(run_id: int, row: FragmentRow) -> tuple[int | None, int | None]:
    """Return the ids of the previous and the next fragment of the same slot."""
    numbers = [row.number - 1, row.number + 1]
    with connection.cursor() as cursor:
        cursor.execute(
            SQL["fragments_beside"], {"run": run_id, "slot": row.slot, "numbers": numbers}
        )
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


FRAGMENTS_AT_MOST: Final = 1_000
"""Maximum number of fragments that one search opens."""
BYTES_AT_MOST: Final = 512 << 20
"""Maximum number of bytes that the search of an episode opens."""


class FoundPart(NamedTuple):
    """A part of an episode in a fragment."""

    row: FragmentRow
    part: EpisodePart
    series: Series


class EpisodeSearch:
    """A search that opens a bounded number of fragments and bytes."""

    def __init__(self, run_id: int, *, bytes_at_most: int = BYTES_AT_MOST) -> None:
        self.run_id = run_id
        self.is_cut = False
        """Whether a fragment was skipped because of the limits."""
        self._opened: dict[int, list[EpisodePart]] = {}
        self._series: dict[int, list[Series]] = {}
        self._bytes_left = bytes_at_most

    def fragments_of(self, episode: str) -> list[FoundPart]:
        """Return the parts of an episode in stored fragments, in the order of its steps.

        Episodes of a slot have ascending numbers, so a binary search over the fragments of the slot
        opens few of them.

        Raises:
            InvalidEpisodeId: If it is no such id.
            SearchTooSlow: If the database takes too long.
        """
        slot, number = slot_and_number(episode)
        with bounded_cursor() as cursor:
            if len(slot) >= EPISODE_SLOT_LENGTH:  # ids of episodes hold the end of long names
                cursor.execute(
                    SQL["long_slot"],
                    {"run": self.run_id, "slot": slot, "length": EPISODE_SLOT_LENGTH},
                )
                whole = cursor.fetchone()
                slot = slot if whole is None else str(whole[0])
            row = self._first_reaching(cursor, slot, number)
            found: list[FoundPart] = []
            while row is not None:
                parts = zip(self._parts(row), self._series[row.id], strict=True)
                held = next((one for one in parts if one[0].id == episode), None)
                if held is None:
                    break
                part, series = held
                found.append(FoundPart(row, part, series))
                row = None if part.outcome else self._from(cursor, slot, row.number + 1)
        return found

    def _first_reaching(self, cursor: Any, slot: str, number: int) -> FragmentRow | None:
        """Return the first fragment of a slot that holds this episode or a later one."""
        cursor.execute(SQL["ends_of_slot"], {"run": self.run_id, "slot": slot})
        low, high = cursor.fetchone()
        if low is None:
            return None
        while low < high:
            middle = (low + high) // 2
            row = self._from(cursor, slot, middle)
            # Retention deletes the oldest fragments, so unreadable ones precede the others.
            parts = [] if row is None else self._parts(row)
            if row is None or (parts and number_in(parts[-1].id) >= number):
                high = middle
            else:
                low = row.number + 1
        return self._from(cursor, slot, low)

    def _from(self, cursor: Any, slot: str, number: int) -> FragmentRow | None:
        """Return the first stored fragment of a slot with this number or a greater one."""
        cursor.execute(SQL["fragment_from"], {"run": self.run_id, "slot": slot, "number": number})
        found = cursor.fetchone()
        return None if found is None else FragmentRow(*found)

    def _parts(self, row: FragmentRow) -> list[EpisodePart]:
        """Return the episodes in a fragment; empty if it cannot be read within the bounds."""
        if row.id not in self._opened:
            self._series[row.id] = []
            if row.size_bytes > self._bytes_left or len(self._opened) >= 2 * FRAGMENTS_AT_MOST:
                self.is_cut = True
                return []
            self._bytes_left -= row.size_bytes
            self._opened[row.id] = []
            with suppress(FragmentUnreadable, PayloadMissing):
                content = opened(row)
                parts = self._opened[row.id] = episode_parts(content)
                self._series[row.id] = [series_of(content, part) for part in parts]
        return self._opened[row.id]
