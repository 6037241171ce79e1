"""Write a batch answer around stored bytes, decoding none that are in the form asked for."""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from struct import pack
from typing import NamedTuple, Protocol

import msgspec

from rolldeck.group_encoding import to_json, to_msgpack
from rolldeck.groups import JSON, MSGPACK, InvalidGroup, read_json, read_msgpack
from rolldeck.wire import SCHEMA_VERSION, BatchHead, FollowHead


class Coded(Protocol):
    """Bytes that know their codec, ``json`` or ``msgpack``."""

    @property
    def codec(self) -> str:
        """What the bytes are."""

    @property
    def content(self) -> bytes:
        """The bytes."""


class Item(NamedTuple):
    """One item of a batch as it is sent."""

    codec: str
    content: bytes


class GroupForm(StrEnum):
    """The codec in which a trainer wants its groups."""

    JSON = "json"
    MSGPACK = "msgpack"
    STORED = "stored"
    """Each in the codec in which it came: nothing is decoded."""


def groups_as(form: GroupForm, groups: Iterable[Coded]) -> list[Item]:
    """Return groups in a form; only those in another codec are decoded and written anew.

    A group whose numbers are too large for any array stays JSON: a lenient run takes those.
    """
    return [_group_as(form, group) for group in groups]


def _group_as(form: GroupForm, group: Coded) -> Item:
    if form is GroupForm.JSON and group.codec == MSGPACK:
        return Item(JSON, to_json(read_msgpack(group.content)))
    if form is GroupForm.MSGPACK and group.codec == JSON:
        try:
            return Item(MSGPACK, to_msgpack(read_json(group.content)))
        except InvalidGroup:
            pass
    return Item(group.codec, group.content)


def msgpack_answer(
    head: BatchHead | FollowHead, items: Sequence[Coded], *, key: str = "batch"
) -> list[bytes]:
    """Return a :class:`rolldeck.wire.BatchAnswer` in msgpack, in parts to send one after another.

    With the key ``follower`` it is a :class:`rolldeck.wire.FollowAnswer`.

    The items are written as msgpack binaries (0xC6, four bytes of length, the bytes).
    """
    encode = msgspec.msgpack.encode
    begin = b"".join(
        [
            b"\x84",
            encode("schema") + encode(SCHEMA_VERSION),
            encode(key) + encode(head),
            encode("codecs") + encode([item.codec for item in items]),
            encode("items") + b"\xdd" + pack(">I", len(items)),
        ]
    )
    parts = [begin]
    for item in items:
        parts += [b"\xc6" + pack(">I", len(item.content)), item.content]
    return parts


def json_answer(
    head: BatchHead | FollowHead, groups: Iterable[Coded], *, key: str = "batch"
) -> list[bytes]:
    """Return ``{"batch": head, "items": [group, …]}`` with every group in JSON, in parts."""
    begin = b'{"%b":%b,"items":[' % (key.encode(), msgspec.json.encode(head))
    return [begin, *_separated(groups, b","), b"]}"]


def stock_answer(groups: Iterable[Coded]) -> list[bytes]:
    """Return what Atropos answers to ``GET /batch``, in parts."""
    return [b'{"batch": [', *_separated(groups, b", "), b"]}"]


def _separated(groups: Iterable[Coded], separator: bytes) -> list[bytes]:
    items = groups_as(GroupForm.JSON, groups)
    return [part for item in items for part in (separator, item.content)][1:]


def example_answer(group: Coded) -> bytes:
    """Return what Atropos answers to ``GET /latest_example``."""
    return _group_as(GroupForm.JSON, group).content
