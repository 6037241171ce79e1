"""Remember what a live topic has shown, and find what is new.

A topic is parts (small JSON values, the latest wins) and series (rows with rising ids). Rows may
become visible out of order, because transactions commit out of order; so each look overlaps the
last one, and what was seen before is left out.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from msgspec import json

# Rows that a snapshot holds; older ones are read through the API.
WINDOW_ROWS: Final = 500
# How far back, in ids, a look for new rows begins.
OVERLAP_IDS: Final = 64


class Row(Protocol):
    """A row of a series: a message with a rising number."""

    @property
    def id(self) -> int:
        """Return the number."""


class Topic:
    """What has been shown of one topic: encoded parts, and the newest rows of each series."""

    def __init__(self) -> None:
        self.parts: dict[str, bytes] = {}
        self._rows: dict[str, deque[tuple[int, bytes]]] = {}
        self._seen: dict[str, set[int]] = {}

    def after(self, series: str) -> int | None:
        """Return the id after which to look for rows of `series`; None for a first look."""
        rows = self._rows.get(series)
        if rows is None:
            return None
        return max(rows[-1][0] - OVERLAP_IDS, 0) if rows else 0

    def changed_parts(self, read: Mapping[str, Any]) -> dict[str, bytes]:
        """Remember `read` and return the encoded parts that are not as before."""
        encoded = {name: json.encode(value) for name, value in read.items()}
        changed = {name: text for name, text in encoded.items() if self.parts.get(name) != text}
        self.parts |= changed
        return changed

    def new_rows(self, series: str, read: Sequence[Row]) -> list[bytes]:
        """Remember `read` and return the encoded rows that were not seen before."""
        rows = self._rows.setdefault(series, deque())
        seen = self._seen.setdefault(series, set())
        fresh = [(row.id, json.encode(row)) for row in read if row.id not in seen]
        seen.update(row_id for row_id, _ in fresh)
        rows.extend(fresh)
        if fresh and rows != deque(sorted(rows)):
            self._rows[series] = rows = deque(sorted(rows))
        while len(rows) > WINDOW_ROWS:
            rows.popleft()
        # An id may only be forgotten once no later look can bring it again.
        if rows and len(seen) > 4 * WINDOW_ROWS:
            oldest = rows[-1][0] - OVERLAP_IDS
            self._seen[series] = {row_id for row_id in seen if row_id >= oldest}
        return [text for _, text in fresh]

    def window(self) -> dict[str, list[bytes]]:
        """Return the newest rows of each series, oldest first."""
        return {name: [text for _, text in rows] for name, rows in self._rows.items()}
