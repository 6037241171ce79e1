"""Write a batch answer around stored bytes, without decoding any of them."""

from collections.abc import Sequence
from struct import pack

import msgspec

from rolldeck.wire import SCHEMA_VERSION, BatchHead


def msgpack_answer(head: BatchHead, items: Sequence[bytes]) -> list[bytes]:
    """Return a :class:`rolldeck.wire.BatchAnswer` in msgpack, in parts to send one after another.

    The items are written as msgpack binaries (0xC6, four bytes of length, the bytes).
    """
    encode = msgspec.msgpack.encode
    begin = b"".join(
        [
            b"\x83",
            encode("schema") + encode(SCHEMA_VERSION),
            encode("batch") + encode(head),
            encode("items") + b"\xdd" + pack(">I", len(items)),
        ]
    )
    parts = [begin]
    for item in items:
        parts += [b"\xc6" + pack(">I", len(item)), item]
    return parts


def json_answer(head: BatchHead, items: Sequence[bytes]) -> list[bytes]:
    """Return ``{"batch": head, "items": [group, …]}`` around groups in JSON, in parts."""
    begin = b'{"batch":%b,"items":[' % msgspec.json.encode(head)
    return [begin, *_separated(items, b","), b"]}"]


def stock_answer(items: Sequence[bytes]) -> list[bytes]:
    """Return what Atropos answers to ``GET /batch``, in parts."""
    return [b'{"batch": [', *_separated(items, b", "), b"]}"]


def _separated(items: Sequence[bytes], separator: bytes) -> list[bytes]:
    parts = [part for item in items for part in (separator, item)]
    return parts[1:]
