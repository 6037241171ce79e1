"""Read the notes of a run."""

from typing import Final

from django.db.models.functions import Length

from runs.lifecycle.models.notes import RunNote
from runs.lifecycle.schemas.notes import Note, NoteRevision, Notes
from web.rules.errors import NotFound

EARLIER_AT_MOST: Final = 50


class NoteNotFound(NotFound):
    """The run's notes have no such revision."""


def newest_note(run_id: int) -> RunNote | None:
    """Return the current notes of a run, or None without notes."""
    return RunNote.objects.filter(run_id=run_id).order_by("-revision").first()


def notes_of(run_id: int) -> Notes:
    """Return the notes of a run with their earlier edits."""
    newest = newest_note(run_id)
    if newest is None:
        return Notes(text="", revision=0, author="", at=None, earlier=[])
    earlier = (
        RunNote.objects.filter(run_id=run_id, revision__lt=newest.revision)
        .annotate(letters=Length("text"))
        .order_by("-revision")
        .values_list("revision", "author", "at", "letters")[:EARLIER_AT_MOST]
    )
    return Notes(
        text=newest.text,
        revision=newest.revision,
        author=newest.author,
        at=newest.at,
        earlier=[
            NoteRevision(revision=revision, author=author, at=at, letters=letters)
            for revision, author, at, letters in earlier
        ],
    )


def note_at(run_id: int, revision: int) -> Note:
    """Return one revision of a run's notes.

    Raises:
        NoteNotFound: If the revision does not exist.
    """
    found = RunNote.objects.filter(run_id=run_id, revision=revision).first()
    if found is None:
        raise NoteNotFound(f"revision {revision} of the notes not found")
    return Note(
        revision=found.revision,
        author=found.author,
        at=found.at,
        letters=len(found.text),
        text=found.text,
    )
