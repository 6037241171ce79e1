"""Shape the notes of a run."""

from datetime import datetime
from typing import Annotated, Final

from msgspec import Meta, Struct

from runs.wire import Reason

LETTERS_AT_MOST: Final = 20_000


class NoteRevision(Struct, frozen=True, kw_only=True):
    """One edit of the notes."""

    revision: int
    author: str
    at: datetime
    letters: int


class Note(NoteRevision, frozen=True, kw_only=True):
    """The notes as one edit left them, in Markdown."""

    text: str


class Notes(Struct, frozen=True, kw_only=True):
    """The notes of a run as they are, and who edited them before."""

    text: str
    """Markdown; empty where nobody wrote any."""
    revision: int
    """0 before the first edit."""
    author: str
    at: datetime | None
    earlier: list[NoteRevision]
    """Edits before this one, the latest first, at most 50."""


class WriteNotes(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the notes are to be, and which edit they were read at."""

    text: Annotated[str, Meta(max_length=LETTERS_AT_MOST)]
    revision: Annotated[int, Meta(ge=0, le=(1 << 31) - 1)]
    reason: Reason = ""
