"""Page cursors of sorted lists."""

import base64
from datetime import datetime
from typing import TypeVar

import msgspec

from web.rules.errors import Invalid

T = TypeVar("T")


class InvalidPlace(Invalid):
    """The text is not a cursor of this list."""

    field = "after"


def place_of(value: str | float | datetime, row_id: int) -> str:
    """Return the cursor after a row that sorts by `value`, then by its id."""
    text = msgspec.json.encode([value, row_id])
    return base64.urlsafe_b64encode(text).decode().rstrip("=")


def value_at(place: str, kind: type[T]) -> tuple[T, int]:
    """Return the value and the id of the row before a cursor.

    Raises:
        InvalidPlace: If the cursor belongs to a list with another kind of sort value.
    """
    try:
        text = base64.urlsafe_b64decode(place + "=" * (-len(place) % 4))
        raw, row_id = msgspec.json.decode(text, type=tuple[msgspec.Raw, int])
        value: T = msgspec.json.decode(raw, type=kind)
    except (ValueError, msgspec.MsgspecError) as error:
        raise InvalidPlace("not a valid cursor of this list") from error
    if isinstance(value, str) and "\x00" in value:
        raise InvalidPlace("not a valid cursor of this list")
    return value, row_id
