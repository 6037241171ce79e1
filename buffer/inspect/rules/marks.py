"""Rules for group labels, pins, notes and sets."""

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from web.rules.errors import InvalidField

LABELS: Final = range(1, 10)
"""Labels are digits, so that each has its own keyboard shortcut."""
LONGEST_NOTE: Final = 2000
LONGEST_LABEL_NAME: Final = 40
MOST_SETS: Final = 200
"""Maximum number of sets of one run."""
MOST_MEMBERS: Final = 10_000
"""Maximum number of groups in one set."""
MOST_AT_ONCE: Final = 200
"""Maximum number of groups that one request marks, adds to a set or removes from it."""
_SET_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,59}")


class InvalidMark(InvalidField):
    """A mark or the name of a set is invalid; `field` names it."""


class Marked(StrEnum):
    """Filters on marks other than labels and sets."""

    PINNED = "pinned"
    NOTED = "noted"
    """The group has a note."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Label, pin and note of a group."""

    label: int | None = None
    is_pinned: bool = False
    note: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether it is blank, so that no row is needed."""
        return self == Mark()

    def changed(self, changes: dict[str, Any]) -> "Mark":
        """Return the mark with some of its fields replaced."""
        return replace(self, **changes)


def checked(changes: dict[str, Any]) -> dict[str, Any]:
    """Validate and normalise changes of a mark.

    Raises:
        InvalidMark: If a label is not from 1 to 9, or a note is too long.
    """
    label, note = changes.get("label"), changes.get("note")
    if label is not None and label not in LABELS:
        raise InvalidMark("label", f"{label} is not a label from 1 to 9")
    if note is None:
        return changes
    kept = note.strip()
    if len(kept) > LONGEST_NOTE or "\x00" in kept:
        raise InvalidMark("note", f"must have at most {LONGEST_NOTE} characters, without NUL")
    return changes | {"note": kept}


def described(changes: dict[str, Any]) -> str:
    """Summarise changes of a mark: ``label 3, pinned``."""
    words = []
    if "label" in changes:
        words.append("no label" if changes["label"] is None else f"label {changes['label']}")
    if "is_pinned" in changes:
        words.append("pinned" if changes["is_pinned"] else "unpinned")
    if "note" in changes:
        words.append("a note" if changes["note"] else "no note")
    return ", ".join(words)


def set_name(name: str) -> str:
    """Return a validated set name.

    Raises:
        InvalidMark: If the name is invalid; it is part of URLs.
    """
    if not _SET_NAME.fullmatch(name):
        raise InvalidMark(
            "set", "must be 1 to 60 of a-z, 0-9, _ and -, and begin with a letter or digit"
        )
    return name


def label_name(name: str) -> str:
    """Return a validated and normalised label name; may be empty.

    Raises:
        InvalidMark: If the name is too long or not printable.
    """
    kept = " ".join(name.split())
    if len(kept) > LONGEST_LABEL_NAME or not kept.isprintable():
        raise InvalidMark("name", f"must be one line of at most {LONGEST_LABEL_NAME} characters")
    return kept
