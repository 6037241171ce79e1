"""Search of an episode in the stored fragments of a worker."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from django.db import connection

from buffer.inspect.queries.fragment_lists import ROW, opened
from buffer.inspect.queries.group_lists import bounded_cursor
from buffer.inspect.rules.episode_search import (
    StoredEpisode,
    StoredPart,
    ended_episodes,
    number_in,
    slot_and_number,
)
from buffer.inspect.rules.fragment_views import EpisodePart, FragmentUnreadable, episode_parts
from buffer.inspect.schemas import FragmentRow
from buffer.payloads.services.contents import PayloadMissing
from rolldeck.fleet_wire import EPISODE_SLOT_LENGTH

FRAGMENTS_AT_MOST: Final = 1_000
"""Maximum number of fragments that one search opens."""
BYTES_AT_MOST: Final = 64 << 20
BYTES_OF_EPISODE_AT_MOST: Final = 512 << 20
"""Maximum number of bytes that the search of an episode by its id opens."""
_SINCE: Final = f"""
    SELECT {ROW} FROM buffer_fragmentchunk f LEFT JOIN buffer_batch b ON b.id = f.batch_id
    WHERE f.run_id = %(run)s AND f.segment IS NOT NULL AND f.received_at >= %(since)s
        AND starts_with(f.slot, %(slots)s) AND f.environment = %(environment)s
    ORDER BY f.id LIMIT %(most)s"""  # noqa: S608 made here
_AT: Final = f"""
    SELECT {ROW} FROM buffer_fragmentchunk f LEFT JOIN buffer_batch b ON b.id = f.batch_id
    WHERE f.run_id = %(run)s AND f.slot = %(slot)s AND f.number = %(number)s"""  # noqa: S608
_FROM: Final = f"""
    SELECT {ROW} FROM buffer_fragmentchunk f LEFT JOIN buffer_batch b ON b.id = f.batch_id
    WHERE f.run_id = %(run)s AND f.slot = %(slot)s AND f.number >= %(number)s
        AND f.segment IS NOT NULL
    ORDER BY f.number LIMIT 1"""  # noqa: S608
_ENDS: Final = """
    SELECT MIN(number), MAX(number) FROM buffer_fragmentchunk
    WHERE run_id = %(run)s AND slot = %(slot)s"""
# Ids of episodes hold the end of a longer name.
_LONG_SLOT: Final = """
    SELECT slot FROM buffer_fragmentchunk
    WHERE run_id = %(run)s AND right(slot, %(length)s) = %(slot)s LIMIT 1"""


class EpisodeSearch:
    """A search that opens a bounded number of fragments and bytes."""

    def __init__(self, run_id: int, *, bytes_at_most: int = BYTES_AT_MOST) -> None:
        self.run_id = run_id
        self.is_cut = False
        """Whether a fragment was skipped because of the limits."""
        self._opened: dict[int, list[EpisodePart]] = {}
        self._bytes_left = bytes_at_most

    def episodes(
        self, *, worker: int, environment: str, since: datetime
    ) -> Iterator[StoredEpisode]:
        """Yield the ended episodes of a worker, oldest first.

        Args:
            worker: Index of the worker in the fleet.
            environment: Environment of the episodes.
            since: Arrival time of the first fragment to search.

        Raises:
            SearchTooSlow: If the database takes too long.
        """
        params = {
            "run": self.run_id,
            "since": since,
            "slots": f"w{worker}-",
            "environment": environment,
            "most": FRAGMENTS_AT_MOST,
        }
        with bounded_cursor() as cursor:
            cursor.execute(_SINCE, params)
            rows = [FragmentRow(*row) for row in cursor.fetchall()]
        for row in rows:
            yield from ended_episodes(row.id, self._parts(row), self._before(row))

    def parts_of(self, episode: str) -> list[StoredPart]:
        """Return the parts of an episode in stored fragments, in the order of its steps.

        Args:
            episode: Id of the episode: the name of its slot, a slash and its number.

        Raises:
            InvalidEpisodeId: If it is no such id.
            SearchTooSlow: If the database takes too long.
        """
        return [
            StoredPart(fragment=row.id, episode=episode, first=part.first, steps=part.steps)
            for row, part in self.fragments_of(episode)
        ]

    def fragments_of(self, episode: str) -> list[tuple[FragmentRow, EpisodePart]]:
        """Return the fragments that hold an episode with its parts, in the order of its steps.

        Episodes of a slot have ascending numbers, so a binary search over the fragments of the slot
        opens few of them.

        Raises:
            InvalidEpisodeId: If it is no such id.
            SearchTooSlow: If the database takes too long.
        """
        slot, number = slot_and_number(episode)
        with bounded_cursor() as cursor:
            slot = self._whole_slot(cursor, slot)
            row = self._first_reaching(cursor, slot, number)
            found: list[tuple[FragmentRow, EpisodePart]] = []
            while row is not None:
                part = next((one for one in self._parts(row) if one.id == episode), None)
                if part is None:
                    break
                found.append((row, part))
                row = None if part.outcome else self._from(cursor, slot, row.number + 1)
        return found

    def _first_reaching(self, cursor: Any, slot: str, number: int) -> FragmentRow | None:
        """Return the first fragment of a slot that holds this episode or a later one."""
        cursor.execute(_ENDS, {"run": self.run_id, "slot": slot})
        low, high = cursor.fetchone()
        if low is None:
            return None
        while low < high:
            middle = (low + high) // 2
            row = self._from(cursor, slot, middle)
            if row is None or self._last_number(row) >= number:
                high = middle
            else:
                low = row.number + 1
        return self._from(cursor, slot, low)

    def _last_number(self, row: FragmentRow) -> int:
        """Return the number of a fragment's last episode; -1 if it cannot be read.

        Retention deletes the oldest fragments, so unreadable ones precede the others.
        """
        parts = self._parts(row)
        return number_in(parts[-1].id) if parts else -1

    def _from(self, cursor: Any, slot: str, number: int) -> FragmentRow | None:
        """Return the first stored fragment of a slot with this number or a greater one."""
        cursor.execute(_FROM, {"run": self.run_id, "slot": slot, "number": number})
        found = cursor.fetchone()
        return None if found is None else FragmentRow(*found)

    def _whole_slot(self, cursor: Any, slot: str) -> str:
        """Return the name of a slot; ids of episodes hold the end of long names."""
        if len(slot) < EPISODE_SLOT_LENGTH:
            return slot
        cursor.execute(
            _LONG_SLOT, {"run": self.run_id, "slot": slot, "length": EPISODE_SLOT_LENGTH}
        )
        found = cursor.fetchone()
        return slot if found is None else str(found[0])

    def _before(self, row: FragmentRow) -> "_Backwards":
        return _Backwards(self, row)

    def _parts(self, row: FragmentRow) -> list[EpisodePart]:
        """Return the episodes in a fragment; empty if it cannot be read within the bounds."""
        if row.id not in self._opened:
            if row.size_bytes > self._bytes_left or len(self._opened) >= 2 * FRAGMENTS_AT_MOST:
                self.is_cut = True
                return []
            self._bytes_left -= row.size_bytes
            try:
                self._opened[row.id] = episode_parts(opened(row))
            except (FragmentUnreadable, PayloadMissing):
                self._opened[row.id] = []
        return self._opened[row.id]

    def parts_at(self, slot: str, number: int) -> tuple[int, list[EpisodePart]] | None:
        """Return the id and the episodes of a fragment of a slot."""
        with connection.cursor() as cursor:
            cursor.execute(_AT, {"run": self.run_id, "slot": slot, "number": number})
            found = cursor.fetchone()
        if found is None:
            return None
        row = FragmentRow(*found)
        return row.id, self._parts(row)


class _Backwards:
    """Iterator factory: the parts of an episode in earlier fragments of its slot, latest first."""

    def __init__(self, search: EpisodeSearch, row: FragmentRow) -> None:
        self._search = search
        self._row = row

    def __call__(self, episode: str) -> Iterator[tuple[int, EpisodePart]]:
        for number in range(self._row.number - 1, -1, -1):
            found = self._search.parts_at(self._row.slot, number)
            if found is None or not found[1] or found[1][-1].id != episode:
                return
            yield found[0], found[1][-1]
            if found[1][-1].begins:
                return
