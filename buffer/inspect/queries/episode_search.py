"""Search of an episode in the stored fragments of a worker."""

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from django.db import connection

from buffer.inspect.queries.fragment_lists import ROW, opened
from buffer.inspect.queries.group_lists import bounded_cursor
from buffer.inspect.rules.episode_search import HeldEpisode, ended_episodes
from buffer.inspect.rules.fragment_views import EpisodePart, FragmentUnreadable, content_of
from buffer.inspect.schemas.fragments import FragmentRow
from buffer.payloads.services.contents import PayloadMissing

FRAGMENTS_AT_MOST: Final = 1_000
"""Maximum number of fragments that one search opens."""
BYTES_AT_MOST: Final = 64 << 20
_SINCE: Final = f"""
    SELECT {ROW} FROM buffer_fragmentchunk f LEFT JOIN buffer_batch b ON b.id = f.batch_id
    WHERE f.run_id = %(run)s AND f.segment IS NOT NULL AND f.received_at >= %(since)s
        AND starts_with(f.slot, %(slots)s) AND f.environment = %(environment)s
    ORDER BY f.id LIMIT %(most)s"""  # noqa: S608 made here
_AT: Final = f"""
    SELECT {ROW} FROM buffer_fragmentchunk f LEFT JOIN buffer_batch b ON b.id = f.batch_id
    WHERE f.run_id = %(run)s AND f.slot = %(slot)s AND f.number = %(number)s"""  # noqa: S608


class EpisodeSearch:
    """A search that opens a bounded number of fragments and bytes."""

    def __init__(self, run_id: int) -> None:
        self.run_id = run_id
        self._opened: dict[int, list[EpisodePart]] = {}
        self._bytes_left = BYTES_AT_MOST

    def episodes(self, *, worker: int, environment: str, since: datetime) -> Iterator[HeldEpisode]:
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

    def _before(self, row: FragmentRow) -> "_Backwards":
        return _Backwards(self, row)

    def _parts(self, row: FragmentRow) -> list[EpisodePart]:
        """Return the episodes in a fragment; empty if it cannot be read within the bounds."""
        if row.id not in self._opened:
            if row.size_bytes > self._bytes_left or len(self._opened) >= 2 * FRAGMENTS_AT_MOST:
                return []
            self._bytes_left -= row.size_bytes
            try:
                self._opened[row.id] = content_of(opened(row)).episodes
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
