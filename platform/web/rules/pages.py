"""Pages of lists and their cursors."""

import base64
import hashlib
import hmac
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec import Struct

from web.rules.errors import Invalid

# Page cursors of lists: opaque, signed text that encodes the position after a row.

T = TypeVar("T")
_SIGNATURE_BYTES: Final = 8


class InvalidPageCursor(Invalid):
    """The text is not a cursor of this list."""

    field = "cursor"


def encode(position: Any, *, key: bytes) -> str:
    """Return the cursor of a position.

    Args:
        position: The sort values of the last row that was read.
        key: Key of the list with its filters, at most 64 bytes.
    """
    content = msgspec.msgpack.encode(position)
    return base64.urlsafe_b64encode(_signature(content, key) + content).decode().rstrip("=")


def decode(cursor: str, kind: type[T], *, key: bytes) -> T:
    """Return the position that a cursor encodes.

    Raises:
        InvalidPageCursor: If the text is not a cursor, or was signed with another key.
    """
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        signature, content = raw[:_SIGNATURE_BYTES], raw[_SIGNATURE_BYTES:]
        if hmac.compare_digest(signature, _signature(content, key)):
            return msgspec.msgpack.decode(content, type=kind)
    except (ValueError, msgspec.MsgspecError) as error:
        raise InvalidPageCursor("not a valid cursor of this list") from error
    raise InvalidPageCursor("not a valid cursor of this list with these filters")


def _signature(content: bytes, key: bytes) -> bytes:
    return hashlib.blake2b(content, key=key, digest_size=_SIGNATURE_BYTES).digest()


# Pages of lists: the schema of a response, and the requested page.

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
        return encode(position, key=self.key)
