"""Pages of lists for tests that call queries directly."""

from typing import TypeVar

from web.rules import pages
from web.rules.pages import PageRequest

P = TypeVar("P")


def page_after(cursor: str | None, kind: type[P], *, limit: int) -> PageRequest[P]:
    """Return the page after a cursor of an earlier one; the first page without a cursor."""
    after = pages.decode(cursor, kind, key=b"") if cursor else None
    return PageRequest(limit=limit, after=after)
