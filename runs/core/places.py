"""Remember where a page of a sorted list ended, as a word in an address."""

import base64
from datetime import datetime
from typing import TypeVar

import msgspec

T = TypeVar("T")


class InvalidPlace(ValueError):
    """This is no place at which a page of this list ends."""

    field = "after"


def place_of(value: str | float | datetime, row_id: int) -> str:
    """Return the place behind a row that sorts by `value` and then by its id."""
    text = msgspec.json.encode([value, row_id])
    return base64.urlsafe_b64encode(text).decode().rstrip("=")


def value_at(place: str, kind: type[T]) -> tuple[T, int]:
    """Return the value and the id of the row behind which `place` is.

    Raises:
        InvalidPlace: If it was not made for a list that sorts by values of this kind.
    """
    try:
        text = base64.urlsafe_b64decode(place + "=" * (-len(place) % 4))
        raw, row_id = msgspec.json.decode(text, type=tuple[msgspec.Raw, int])
        value: T = msgspec.json.decode(raw, type=kind)
    except (ValueError, msgspec.MsgspecError) as error:
        raise InvalidPlace("this place is not one of this list") from error
    if isinstance(value, str) and "\x00" in value:
        raise InvalidPlace("this place is not one of this list")
    return value, row_id
