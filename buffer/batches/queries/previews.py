"""Text previews of groups and fragments for the admin."""

from typing import Final

import msgspec

from buffer.items.rules.states import ItemKind
from buffer.payloads.services.contents import PayloadMissing, content_head
from rolldeck.group_encoding import to_json
from rolldeck.groups import InvalidGroup, read_msgpack
from rolldeck.wire import Fragment

PREVIEW_BYTES: Final = 4096
DECODED_BYTES: Final = 1 << 20


def group_preview(group_id: int) -> str:
    """Return the beginning of a group as JSON."""
    try:
        content = content_head(ItemKind.GROUPS, group_id, PREVIEW_BYTES)
        if content and content[:1] != b"{":  # no message in msgpack begins with a brace
            content = _shown_as_json(content_head(ItemKind.GROUPS, group_id, DECODED_BYTES))
    except PayloadMissing as missing:
        return str(missing)
    text = content[:PREVIEW_BYTES].decode(errors="replace")
    return text + (" …" if len(content) >= PREVIEW_BYTES else "")


def _shown_as_json(content: bytes) -> bytes:
    try:
        return to_json(read_msgpack(content))
    except InvalidGroup:
        return f"{len(content)} bytes or more".encode()


def fragment_preview(fragment_id: int) -> str:
    """Return the arrays of a fragment by name, dtype and shape."""
    try:
        content = content_head(ItemKind.FRAGMENTS, fragment_id, DECODED_BYTES)
    except PayloadMissing as missing:
        return str(missing)
    try:
        fragment = msgspec.msgpack.decode(content, type=Fragment)
    except msgspec.MsgspecError:
        return f"{len(content)} bytes" if content else "no bytes: dropped on arrival"
    return "; ".join(
        f"{name}: {array.dtype} {list(array.shape)}" for name, array in fragment.arrays.items()
    )
