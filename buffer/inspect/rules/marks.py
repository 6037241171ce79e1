"""Labels and notes of groups."""

from dataclasses import dataclass, replace
from typing import Any, Final

from web.rules.errors import InvalidField

LABELS: Final = range(1, 10)
"""Labels are digits, so that each has its own keyboard shortcut."""
LONGEST_NOTE: Final = 2000
LONGEST_LABEL_NAME: Final = 40
MOST_AT_ONCE: Final = 200
"""Maximum number of groups that one request marks or discards."""


class InvalidMark(InvalidField):
    """A mark is invalid; `field` names the part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Label and note of a group."""

    label: int | None = None
    note: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether it is blank, so that no row is needed."""
        return self == Mark()

    def changed(self, changes: dict[str, Any]) -> "Mark":
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
    """Summarise changes of a mark: ``label 3, a note``."""
    words = []
    if "label" in changes:
        words.append("no label" if changes["label"] is None else f"label {changes['label']}")
    if "note" in changes:
        words.append("a note" if changes["note"] else "no note")
    return ", ".join(words)


def label_name(name: str) -> str:
    """Return a validated and normalised label name; may be empty.

    Raises:
        InvalidMark: If the name is too long or not printable.
    """
    kept = " ".join(name.split())
    if len(kept) > LONGEST_LABEL_NAME or not kept.isprintable():
        raise InvalidMark("name", f"must be one line of at most {LONGEST_LABEL_NAME} characters")
    return kept
