"""Pages of lists: the schema of a response, and the requested page."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from msgspec import Struct

from web.rules import page_cursor

P = TypeVar("P")
R = TypeVar("R")


class Page(Struct, Generic[R], frozen=True, kw_only=True):
    """A page of a list; each list adds its own facts."""

    results: list[R]
    next: str | None
    """Cursor of the next page; null at the end, and for lists that are always whole."""


@dataclass(frozen=True, slots=True)
class PageRequest(Generic[P]):
    """A requested page of a list."""

    limit: int
    """Maximum number of rows."""
    after: P | None = None
    """Position of the last row of the previous page; None for the first page."""
    key: bytes = b""
    """Key of the list with its filters; signs its cursors."""

    def cut(self, rows: Iterable[R], position: Callable[[R], P]) -> tuple[list[R], str | None]:
        """Return the rows of the page, and the cursor of the next page if there is one.

        Args:
            rows: Up to `limit` + 1 rows; the last one shows that there is a next page.
            position: Returns the position of a row.
        """
        found = list(rows)
        page = found[: self.limit]
        has_next = len(found) > self.limit
        return page, self.cursor(position(page[-1])) if has_next else None

    def cursor(self, position: P) -> str:
        """Return the cursor of the page after a position."""
        return page_cursor.encode(position, key=self.key)
