"""Edit the notes of runs without lost updates."""

from datetime import datetime

from django.db import transaction

from runs.events.services import ACTOR_LENGTH, record_event
from runs.lifecycle.models import Run, RunNote
from runs.lifecycle.queries import RunNotFound, newest_note
from web.rules.errors import Conflict


class NotesChanged(Conflict):
    """The notes were edited since they were read."""

    code = "notes_changed"
    title = "Edited by another request"
    field = "revision"


@transaction.atomic
def write_notes(
    *, run_id: int, text: str, revision: int, actor: str, reason: str = "", now: datetime
) -> RunNote | None:
    """Set a run's notes and return them; earlier revisions are kept.

    Writing the same text again changes nothing, so the call may be retried.

    Args:
        run_id: A run, which may have ended.
        text: Markdown; empty to clear the notes.
        revision: Revision that the edit is based on; 0 for none.
        actor: Author.
        reason: Reason, recorded in the run's history.
        now: Time of the edit.

    Returns:
        The current notes, or None if there never were any.

    Raises:
        RunNotFound: If there is no such current run.
        NotesChanged: If there is a later revision.
    """
    # Locked, so that the second of two concurrent edits sees the first.
    if not Run.objects.current().select_for_update(no_key=True).filter(pk=run_id).exists():
        raise RunNotFound(f"no current run with id {run_id}")
    before = newest_note(run_id)
    if text == (before.text if before else ""):
        return before
    number = before.revision if before else 0
    if number != revision:
        author = before.author if before else "no author"
        raise NotesChanged(
            f"the notes are at revision {number} by {author}; your edit is based on {revision}"
        )
    note = RunNote.objects.create(
        run_id=run_id, revision=number + 1, text=text, author=actor[:ACTOR_LENGTH], at=now
    )
    record_event(
        run_id=run_id,
        kind="notes_edited",
        message=f"notes edited, revision {note.revision}" if text else "notes cleared",
        actor=actor,
        reason=reason,
        details={
            "revision": {"before": number or None, "after": note.revision},
            "letters": {"before": len(before.text) if before else 0, "after": len(text)},
        },
        now=now,
    )
    return note
