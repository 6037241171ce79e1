"""Say what people may write on a group, and what is left when they change it."""

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

LABELS: Final = range(1, 10)
"""Labels are digits, so that a key of its own gives each."""
LONGEST_NOTE: Final = 2000
LONGEST_LABEL_NAME: Final = 40
MOST_SETS: Final = 200
"""Sets of one run."""
MOST_MEMBERS: Final = 10_000
"""Groups of one set."""
MOST_AT_ONCE: Final = 200
"""Groups that one request marks, puts into a set or takes out of it."""
_SET_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,59}")


class InvalidMark(ValueError):
    """A mark or the name of a set cannot be what was asked for; `field` says which."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message


class Marked(StrEnum):
    """What may be looked for besides labels and sets."""

    PINNED = "pinned"
    NOTED = "noted"
    """Somebody wrote a note."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """What is written on a group."""

    label: int | None = None
    is_pinned: bool = False
    note: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether it says nothing, so that no row is needed."""
        return self == Mark()

    def changed(self, changes: dict[str, Any]) -> "Mark":
        """Return the mark with some of its fields replaced."""
        return replace(self, **changes)


def checked(changes: dict[str, Any]) -> dict[str, Any]:
    """Return changes of a mark as they are kept.

    Raises:
        InvalidMark: If a label is none of 1 to 9, or a note is too long.
    """
    label, note = changes.get("label"), changes.get("note")
    if label is not None and label not in LABELS:
        raise InvalidMark("label", f"{label} is none of 1 to 9")
    if note is None:
        return changes
    kept = note.strip()
    if len(kept) > LONGEST_NOTE or "\x00" in kept:
        raise InvalidMark("note", f"at most {LONGEST_NOTE} characters, none of them NUL")
    return changes | {"note": kept}


def said(changes: dict[str, Any]) -> str:
    """Return changes of a mark in a few words: ``label 3, pinned``."""
    words = []
    if "label" in changes:
        words.append("no label" if changes["label"] is None else f"label {changes['label']}")
    if "is_pinned" in changes:
        words.append("pinned" if changes["is_pinned"] else "no longer pinned")
    if "note" in changes:
        words.append("a note" if changes["note"] else "no note")
    return ", ".join(words)


def set_name(name: str) -> str:
    """Return the name of a set.

    Raises:
        InvalidMark: If it can be none: an address holds it.
    """
    if not _SET_NAME.fullmatch(name):
        raise InvalidMark(
            "set", "1 to 60 of a-z, 0-9, _ and -, a letter or digit first, such as reward-hacks"
        )
    return name


def label_name(name: str) -> str:
    """Return what a label is called; empty for its digit only.

    Raises:
        InvalidMark: If it is too long or more than a line.
    """
    kept = " ".join(name.split())
    if len(kept) > LONGEST_LABEL_NAME or not kept.isprintable():
        raise InvalidMark("name", f"one line of at most {LONGEST_LABEL_NAME} characters")
    return kept
