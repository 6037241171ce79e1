"""Write a batch answer around stored bytes, without decoding any of them."""

from collections.abc import Sequence
from struct import pack

import msgspec

from rolldeck.wire import SCHEMA_VERSION, BatchHead


def msgpack_answer(head: BatchHead, items: Sequence[bytes]) -> bytes:
    """Return a :class:`rolldeck.wire.BatchAnswer` in msgpack.

    The items are written as msgpack binaries (0xC6, four bytes of length, the bytes).
    """
    encode = msgspec.msgpack.encode
    parts = [
        b"\x83",
        encode("schema") + encode(SCHEMA_VERSION),
        encode("batch") + encode(head),
        encode("items") + b"\xdd" + pack(">I", len(items)),
    ]
    for item in items:
        parts += [b"\xc6", pack(">I", len(item)), item]
    return b"".join(parts)


def json_answer(head: BatchHead, items: Sequence[bytes]) -> bytes:
    """Return ``{"batch": head, "items": [group, …]}`` around groups in JSON."""
    return b'{"batch":%b,"items":[%b]}' % (msgspec.json.encode(head), b",".join(items))


def stock_answer(items: Sequence[bytes]) -> bytes:
    """Return what Atropos answers to ``GET /batch``."""
    return b'{"batch": [%b]}' % b", ".join(items)
