"""Name a place in the stream of what a run accepts.

Items stand in the order of the transactions that wrote them, then of their ids. A transaction
gets its number before it commits, so one with a smaller number may commit later: readers stop
before the oldest transaction that is still open, and so never pass a place that can still fill.
"""

import re
from typing import Final, NamedTuple, Self

_TOKEN: Final = re.compile(r"(\d{1,20})-(\d{1,19})", re.ASCII)


class InvalidCursor(ValueError):
    """A cursor names no item of the run."""

    field = "cursor"


class Cursor(NamedTuple):
    """The place of one item; those after it are greater."""

    written_in: int
    """Number of the transaction that wrote the item."""
    item_id: int

    @classmethod
    def parse(cls, token: str) -> Self:
        """Return the cursor that :meth:`token` wrote.

        Raises:
            InvalidCursor: If the text is none.
        """
        found = _TOKEN.fullmatch(token, 0, 60)
        if found is None or int(found[1]) >= 1 << 64 or int(found[2]) >= 1 << 63:
            raise InvalidCursor(f"{token[:60]!r} is no cursor")
        return cls(int(found[1]), int(found[2]))

    def token(self) -> str:
        """Return the cursor as text."""
        return f"{self.written_in}-{self.item_id}"


START: Final = Cursor(0, 0)
