"""Page cursors of lists: opaque, signed text that encodes the position after a row."""

import base64
import hashlib
import hmac
from typing import Any, Final, TypeVar

import msgspec

from web.rules.errors import Invalid

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
