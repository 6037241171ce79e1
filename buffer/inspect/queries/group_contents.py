"""Content of stored groups."""

from typing import Final

from buffer.inspect.queries.group_lists import GroupRow
from buffer.items.rules.states import ItemKind
from buffer.payloads.services.contents import PayloadMissing, content_head
from rolldeck.group_encoding import to_json
from rolldeck.groups import JSON, GroupArrays, InvalidGroup, read
from web.rules.errors import InvalidData

_ALL: Final = (1 << 31) - 1


class GroupUnreadable(InvalidData):
    """The bytes are not a valid group; lenient runs accept such groups."""


def stored_bytes(row: GroupRow) -> bytes:
    """Return the stored bytes of a group.

    Raises:
        PayloadMissing: If its bytes were not stored or are lost.
        PayloadExpired: If retention removed them.
    """
    if not row.has_bytes:
        raise PayloadMissing(ItemKind.GROUPS, row.id, why="they were not stored")
    return content_head(ItemKind.GROUPS, row.id, _ALL)


def opened(row: GroupRow) -> GroupArrays:
    """Return the decoded content of a group.

    Raises:
        GroupUnreadable: If its bytes are no group.
        PayloadMissing: If it has none.
    """
    try:
        return read(stored_bytes(row), row.codec)
    except InvalidGroup as error:
        raise GroupUnreadable(f"group {row.id} cannot be taken apart: {error}") from error


def as_json(row: GroupRow) -> bytes:
    """Return a group in Atropos' JSON.

    Raises:
        GroupUnreadable: If its bytes are no group.
        PayloadMissing: If it has none.
    """
    content = stored_bytes(row)
    if row.codec == JSON:
        return content
    try:
        return to_json(read(content, row.codec))
    except InvalidGroup as error:
        raise GroupUnreadable(f"group {row.id} cannot be taken apart: {error}") from error
