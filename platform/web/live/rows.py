"""State of a live topic: the parts and rows that were sent, to find new ones.

A topic consists of parts (small JSON values, the latest wins) and series (rows with rising ids).
Rows may become visible out of order, because transactions commit out of order. Each read therefore
overlaps the last one, and rows seen before are left out.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

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
