"""Open a stored group for those who look at it."""

from typing import Final

from buffer.inspect.queries.group_lists import GroupRow
from buffer.items.rules.states import ItemKind
from buffer.payloads.services.contents import PayloadMissing, content_head
from rolldeck.group_encoding import to_json
from rolldeck.groups import JSON, GroupArrays, InvalidGroup, read

_ALL: Final = (1 << 31) - 1


class GroupUnreadable(ValueError):
    """The bytes of a group are no group; a lenient run took them."""


def stored_bytes(row: GroupRow) -> bytes:
    """Return the bytes of a group as they came.

    Raises:
        PayloadMissing: If none were kept, or they are lost.
        PayloadExpired: If retention let them go.
    """
    if not row.has_bytes:
        raise PayloadMissing(ItemKind.GROUPS, row.id, why="they were never kept")
    return content_head(ItemKind.GROUPS, row.id, _ALL)


def opened(row: GroupRow) -> GroupArrays:
    """Return what is in a group.

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
