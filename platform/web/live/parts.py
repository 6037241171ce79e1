"""Parts and series of live topics: their readers, and the state that was sent, to find new ones.

A part is a small JSON value, the latest of which wins. A series is a growing list of rows, each
with a rising integer `id`. :mod:`config.readers` fills the tables of readers.

The return type of a reader defines the shape of its part in the protocol: the dashboard's types are
generated from it, and a test checks every frame against it.

Rows may become visible out of order, because transactions commit out of order. Each read therefore
overlaps the last one, and rows seen before are left out.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, get_type_hints

from msgspec import json

# Rows in a snapshot; older ones are read through the API.
WINDOW_ROWS: Final = 500
# Overlap, in ids, with the previous read.
OVERLAP_IDS: Final = 64


class Row(Protocol):
    """A row of a series, with a rising id."""

    @property
    def id(self) -> int:
        """Return the id."""


class Topic:
    """Sent state of one topic: encoded parts, and the newest rows of each series."""

    def __init__(self) -> None:
        self.parts: dict[str, bytes] = {}
        self._rows: dict[str, deque[tuple[int, bytes]]] = {}
        self._seen: dict[str, set[int]] = {}

    def after(self, series: str) -> int | None:
        """Return the id after which to read rows of `series`; None for the first read."""
        rows = self._rows.get(series)
        if rows is None:
            return None
        return max(rows[-1][0] - OVERLAP_IDS, 0) if rows else 0

    def changed_parts(self, read: Mapping[str, Any]) -> dict[str, bytes]:
        """Store `read` and return the encoded parts that changed."""
        encoded = {name: json.encode(value) for name, value in read.items()}
        changed = {name: text for name, text in encoded.items() if self.parts.get(name) != text}
        self.parts |= changed
        return changed

    def new_rows(self, series: str, read: Sequence[Row]) -> list[bytes]:
        """Store `read` and return the encoded rows that are new."""
        rows = self._rows.setdefault(series, deque())
        seen = self._seen.setdefault(series, set())
        fresh = [(row.id, json.encode(row)) for row in read if row.id not in seen]
        seen.update(row_id for row_id, _ in fresh)
        rows.extend(fresh)
        if fresh and rows != deque(sorted(rows)):
            self._rows[series] = rows = deque(sorted(rows))
        while len(rows) > WINDOW_ROWS:
            rows.popleft()
        # Forget an id only when no later read can return it.
        if rows and len(seen) > 4 * WINDOW_ROWS:
            oldest = rows[-1][0] - OVERLAP_IDS
            self._seen[series] = {row_id for row_id in seen if row_id >= oldest}
        return [text for _, text in fresh]

    def window(self) -> dict[str, list[bytes]]:
        """Return the newest rows of each series, oldest first."""
        return {name: [text for _, text in rows] for name, rows in self._rows.items()}


ReadPart = Callable[[int], Any]
ReadSeries = Callable[[int, int | None, int], Sequence[Row]]
ReadRunActivity = Callable[[Sequence[int]], dict[int, dict[str, Any]]]

PARTS: Final[dict[str, ReadPart]] = {}
"""Parts of each run's page: ``read(run_id)``."""
PACES: Final[dict[str, float]] = {}
"""Minimum seconds between two reads of a part, for those that are not read at each change."""
SERIES: Final[dict[str, ReadSeries]] = {}
"""Series of each run's page. ``read(run_id, after_id, limit)`` returns at most `limit` rows, oldest
first: the first ones after `after_id`, or the newest ones when `after_id` is None.
"""
GLOBAL_PARTS: Final[dict[str, dict[str, Callable[[], Any]]]] = {}
"""Parts of each topic of the deployment; :mod:`runs.live.rules` defines the
access and the rate of the topics.
"""
OWN_PARTS: Final[dict[str, Callable[[str], Any]]] = {}
"""Parts of each person's own topic: ``read(username)``."""
RUN_ACTIVITY: Final[list[ReadRunActivity]] = []
"""Fields of run summaries: ``read(run_ids)`` returns them by run, in few queries; runs without data
may be omitted.
"""


def shapes(readers: Mapping[str, Callable[..., Any]]) -> dict[str, Any]:
    """Return the return type of each reader."""
    return {name: get_type_hints(read).get("return", Any) for name, read in readers.items()}
