"""Counts of items, updated in the transaction of every change.

Each transaction adds its changes as its last write, in one statement and in a fixed order. Counts
are therefore exact, writers do not deadlock, and readers sum few rows.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import msgspec

from buffer.items.rules.environments import NO_ENVIRONMENT
from buffer.items.rules.ledger import ACCEPTED, TRUNCATED
from buffer.items.rules.states import ItemKind, ItemState
from web import database
from web.sql import statements_of

SQL: Final = statements_of("buffer")

SHARDS: Final = 8
"""Rows of each count; `add_changes` chooses one by the process of the database."""
_QUEUES: Final = frozenset({ItemState.QUEUED, ItemState.WAITING})

TABLES: Final = {
    ItemKind.GROUPS: "buffer_trajectorygroup",
    ItemKind.FRAGMENTS: "buffer_fragmentchunk",
}
"""Table of the items of each kind."""
MOVED: Final = {
    ItemKind.GROUPS: """i.epoch, i.env_id, '' AS environment, i.sequences, i.size_bytes, i.tokens,
        i.longest_tokens, i.policy_step""",
    ItemKind.FRAGMENTS: """i.epoch, NULL::int AS env_id, i.environment, 1 AS sequences,
        i.size_bytes, 0 AS tokens, 0 AS longest_tokens, i.version_min AS policy_step""",
}
"""Columns of a row ``i`` for the CTE ``moved`` of `count_moved` and of new batches."""


class Counted(NamedTuple):
    """The attributes of an item that the counts group by and sum.

    `env_id` is the environment of a group, `environment` the one of a fragment.
    """

    epoch: int
    env_id: int | None
    sequences: int
    size_bytes: int = 0
    environment: str = ""


# Columns of a row for :func:`counted`, in order.
COUNTED: Final = {
    ItemKind.GROUPS: ("epoch", "size_bytes", "env_id", "sequences"),
    ItemKind.FRAGMENTS: ("epoch", "size_bytes", "environment"),
}


def counted(epoch: int, size_bytes: int, where: int | str | None, sequences: int = 1) -> Counted:
    """Return the contribution to the counts of a row with the columns of :data:`COUNTED`."""
    if isinstance(where, str):
        return Counted(epoch, None, 1, size_bytes, where)
    return Counted(epoch, where, sequences, size_bytes)


# state, reason, epoch, env_id, environment, size
_Key = tuple[str, str, int, int, str, int]
_COLUMNS: Final = (
    *("state", "reason", "epoch", "env_id", "environment", "size"),
    *("items", "sequences", "size_bytes"),
)


class Changes:
    """Collects the changes of one transaction in one run, to write them once."""

    def __init__(self, run_id: int, kind: ItemKind) -> None:
        self._run_id = run_id
        self._kind = kind
        self._items: Counter[_Key] = Counter()
        self._sequences: Counter[_Key] = Counter()
        self._bytes: Counter[_Key] = Counter()

    def accept(self, items: Iterable[Counted], state: ItemState, *, reason: str = "") -> None:
        """Count accepted items, which are now in state `state`."""
        for item in items:
            self._add(item, ACCEPTED, "", 1)
            self._add(item, state, reason, 1)

    def truncate(self, items: Iterable[Counted]) -> None:
        """Count accepted items whose sequences were truncated."""
        for item in items:
            self._add(item, TRUNCATED, "", 1)

    def move(
        self, items: Iterable[Counted], source: ItemState, to: ItemState, *, reason: str = ""
    ) -> None:
        """Count items that moved from one state to another."""
        for item in items:
            self._add(item, source, "", -1)
            self._add(item, to, reason, 1)

    def _add(self, item: Counted, state: str, reason: str, count: int) -> None:
        env_id = NO_ENVIRONMENT if item.env_id is None else item.env_id
        size = item.sequences if state in _QUEUES and self._kind == ItemKind.GROUPS else 0
        key = (state, reason, item.epoch, env_id, item.environment, size)
        self._items[key] += count
        self._sequences[key] += count * item.sequences
        self._bytes[key] += count * item.size_bytes

    def rows(self) -> list[dict[str, Any]]:
        """Return one row for each count that changes."""
        sums = (self._items, self._sequences, self._bytes)
        return [
            dict(zip(_COLUMNS, (*key, *(summed[key] for summed in sums)), strict=True))
            for key in self._items
            if any(summed[key] for summed in sums)
        ]

    def params(self) -> dict[str, Any]:
        """Return the parameters of a statement that adds the changes."""
        return {
            "run": self._run_id,
            "kind": str(self._kind),
            "counts": msgspec.json.encode(self.rows()).decode(),
        }

    def sequences(self, state: str, *, epoch: int) -> int:
        """Return the change of a state's sequences or fragments in an epoch."""
        return sum(
            summed
            for (changed, _, of_epoch, *_), summed in self._sequences.items()
            if changed == state and of_epoch == epoch
        )

    def write(self) -> None:
        """Add the changes to the counts."""
        if not self._items:
            return
        with database.cursor() as cursor:
            cursor.execute(SQL["count_changes"], self.params(), prepare=True)
