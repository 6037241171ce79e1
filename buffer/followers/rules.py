"""Cursor in the stream of a run's accepted items.

Items are ordered by the transactions that wrote them, then by id. A transaction gets its number
before it commits, so one with a smaller number may commit later. Readers stop before the oldest
open transaction and therefore never skip an item that appears later.
"""

import re
from typing import Final, NamedTuple, Self

from web.rules.errors import Invalid

_TOKEN: Final = re.compile(r"(\d{1,20})-(\d{1,19})", re.ASCII)


class InvalidCursor(Invalid):
    """The cursor is not a valid cursor of the run."""

    field = "cursor"


class Cursor(NamedTuple):
    """Cursor of one item; later items have greater cursors."""

    written_in: int
    """Number of the transaction that wrote the item."""
    item_id: int

    @classmethod
    def parse(cls, token: str) -> Self:
        """Parse a cursor written by :meth:`token`.

        Raises:
            InvalidCursor: If the text is not a valid cursor.
        """
        found = _TOKEN.fullmatch(token, 0, 60)
        if found is None or int(found[1]) >= 1 << 64 or int(found[2]) >= 1 << 63:
            raise InvalidCursor(f"{token[:60]!r} is not a valid cursor")
        return cls(int(found[1]), int(found[2]))

    def token(self) -> str:
        return f"{self.written_in}-{self.item_id}"


START: Final = Cursor(0, 0)
