"""Parts and series of live topics: their readers, and the state that was sent, to find new ones.

A part is a small JSON value, the latest of which wins; where few of its fields changed, only those
are sent. A series is a growing list of rows, each
with a rising integer `id`. :mod:`config.readers` fills the tables of readers.

The return type of a reader defines the shape of its part in the protocol: the dashboard's types are
generated from it, and a test checks every frame against it.

Rows may become visible out of order, because transactions commit out of order. Each read therefore
overlaps the last one, and rows seen before are left out.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, get_type_hints

from msgspec import Raw, json

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

    def changed_parts(self, read: Mapping[str, Any]) -> "dict[str, ChangedPart]":
        """Store `read` and return the parts that changed."""
        changed = {}
        for name, value in read.items():
            text, before = json.encode(value), self.parts.get(name)
            if text != before:
                changed[name] = ChangedPart(text, _changes(before, text) if before else None)
                self.parts[name] = text
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


FieldChange = tuple[list[str | int], Raw]
"""Path of a field from the root of its part, in keys and indexes, and its new value."""
SMALL_SHARE: Final = 0.5
"""Share of a part's bytes from which it is sent whole."""


class ChangedPart(NamedTuple):
    """A part that differs from the one that was sent before."""

    text: bytes
    """The encoded part."""
    changes: list[FieldChange] | None
    """Its changed fields; None if they are not smaller than the part."""


def _changes(before: bytes, after: bytes) -> list[FieldChange] | None:
    changes = [
        (list(path), Raw(json.encode(value)))
        for path, value in _fields(json.decode(before), json.decode(after), ())
    ]
    size_bytes = len(json.encode(changes))
    return changes if size_bytes < SMALL_SHARE * len(after) else None


def _fields(
    before: Any, after: Any, path: tuple[str | int, ...]
) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Yield the paths and new values of fields; lists that grow or shrink are replaced.

    The key `__proto__` of an object cannot be assigned in JavaScript, so its object is replaced.
    """
    if before == after and type(before) is type(after):
        return
    keys: Iterable[str | int] = ()
    if isinstance(before, dict) and isinstance(after, dict):
        if before.keys() <= after.keys() and "__proto__" not in after:
            keys = after
    elif (
        isinstance(before, list)
        and isinstance(after, list)
        and len(before) == len(after)
        and all(isinstance(one, dict) for one in (*before, *after))
    ):
        keys = range(len(after))
    if not keys:
        yield path, after
        return
    for key in keys:
        if isinstance(before, dict) and key not in before:
            yield (*path, key), after[key]
        else:
            yield from _fields(before[key], after[key], (*path, key))


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
