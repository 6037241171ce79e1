"""Schemas of a run's notes."""

from datetime import datetime
from typing import Annotated, Final

from msgspec import Meta, Struct

from web.http.field_types import Reason

LETTERS_AT_MOST: Final = 20_000


class NoteRevision(Struct, frozen=True, kw_only=True):
    """One edit of the notes."""

    revision: int
    author: str
    at: datetime
    letters: int


class Note(NoteRevision, frozen=True, kw_only=True):
    """The notes after one edit, in Markdown."""

    text: str


class Notes(Struct, frozen=True, kw_only=True):
    """Current notes of a run, and their earlier edits."""

    text: str
    """Markdown; empty without notes."""
    revision: int
    """0 before the first edit."""
    author: str
    at: datetime | None
    earlier: list[NoteRevision]
    """Earlier edits, the latest first, at most 50."""


class WriteNotes(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """New text of the notes, and the revision that it is based on."""

    text: Annotated[str, Meta(max_length=LETTERS_AT_MOST)]
    revision: Annotated[int, Meta(ge=0, le=(1 << 31) - 1)]
    reason: Reason = ""
