"""Encode batch answers around stored bytes; re-encodes only items in another codec."""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from struct import pack
from typing import NamedTuple, Protocol

import msgspec

from rolldeck.group_encoding import to_json, to_msgpack
from rolldeck.groups import JSON, MSGPACK, InvalidGroupError, read_json, read_msgpack
from rolldeck.wire import SCHEMA_VERSION, BatchHead, FollowHead


class Coded(Protocol):
    """Bytes with their codec, ``json`` or ``msgpack``."""

    @property
    def codec(self) -> str:
        """Codec of the bytes."""

    @property
    def content(self) -> bytes:
        """The bytes."""


class Item(NamedTuple):
    """An item of a batch in the form in which it is sent."""

    codec: str
    content: bytes


class GroupForm(StrEnum):
    """The codec that a trainer requests for its groups."""

    JSON = "json"
    MSGPACK = "msgpack"
    STORED = "stored"
    """Each group in its stored codec, without decoding."""


def group_form(accept: str) -> GroupForm:
    """Return the ``groups`` parameter of the accepted media type; the default is JSON."""
    for name, _, value in (part.partition("=") for part in accept.replace(",", ";").split(";")):
        if name.strip().lower() == "groups" and value.strip() in set(GroupForm):
            return GroupForm(value.strip())
    return GroupForm.JSON


def groups_as(form: GroupForm, groups: Iterable[Coded]) -> list[Item]:
    """Return groups in a form; only groups in another codec are decoded and re-encoded.

    Lenient runs accept groups with numbers that fit no array; such groups stay JSON.
    """
    return [_group_as(form, group) for group in groups]


def _group_as(form: GroupForm, group: Coded) -> Item:
    if form is GroupForm.JSON and group.codec == MSGPACK:
        return Item(JSON, to_json(read_msgpack(group.content)))
    if form is GroupForm.MSGPACK and group.codec == JSON:
        try:
            return Item(MSGPACK, to_msgpack(read_json(group.content)))
        except InvalidGroupError:
            pass
    return Item(group.codec, group.content)


def msgpack_answer(
    head: BatchHead | FollowHead, items: Sequence[Coded], *, key: str = "batch"
) -> list[bytes]:
    """Return a :class:`rolldeck.wire.BatchAnswer` in msgpack, in parts to send in order.

    With the key ``follower`` it is a :class:`rolldeck.wire.FollowAnswer`.

    Items are msgpack binaries: 0xC6, the length in four bytes, the bytes.
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
    """Return the Atropos answer to ``GET /batch``, in parts."""
    return [b'{"batch": [', *_separated(groups, b", "), b"]}"]


def _separated(groups: Iterable[Coded], separator: bytes) -> list[bytes]:
    items = groups_as(GroupForm.JSON, groups)
    return [part for item in items for part in (separator, item.content)][1:]


def example_answer(group: Coded) -> bytes:
    """Return the Atropos answer to ``GET /latest_example``."""
    return _group_as(GroupForm.JSON, group).content
