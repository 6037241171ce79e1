"""Kinds of saved objects, their visibility and their errors."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from web.rules.errors import Forbidden, InvalidField, NotFound

KINDS: Final = ("preset", "view")


class Access(StrEnum):
    """Visibility of a saved object."""

    PRIVATE = "private"
    """Visible to and changed by its owner only."""
    SHARED = "shared"
    """Visible to all; changed by its owner and by administrators."""
    OPEN = "open"
    """Visible to all; changed by every operator."""


class SavedObjectNotFound(NotFound):
    """The object does not exist, or is not visible to the caller."""


class NotAllowedToChange(Forbidden):
    """The caller may use the object but not change it, or may not share one."""


class InvalidSavedObject(InvalidField):
    """A saved object is invalid; `field` names the field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedKind:
    """One kind of saved objects, defined by the capability that uses it."""

    name: str
    """One of :data:`KINDS`."""
    body: str
    """Name of the document in the API and the audit log."""
    text: str = ""
    """Name of the text in the API and the audit log; empty without one."""
    name_taken: type[Exception] | None = None
    """Error if the name is taken; None if names need not be unique."""
    at_most: int | None = None
    """Maximum number per user, run or tag; None without a limit."""
    too_many: type[Exception] = Exception
    """Error if the limit is reached."""


def checked_name(name: str) -> str:
    """Return a name without the white space around it.

    Raises:
        InvalidSavedObject: If nothing is left.
    """
    if not name.strip():
        raise InvalidSavedObject("name", "must not be empty")
    return name.strip()


def differences(before: Any, after: Any, path: str = "") -> dict[str, dict[str, Any]]:
    """Return the differences of two documents by path, each with `before` and `after`."""
    if not isinstance(before, dict) or not isinstance(after, dict):
        return {} if before == after else {path: {"before": before, "after": after}}
    found: dict[str, dict[str, Any]] = {}
    for key in [*before, *(key for key in after if key not in before)]:
        place = f"{path}.{key}" if path else key
        found |= differences(before.get(key), after.get(key), place)
    return found
