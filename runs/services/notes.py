"""Write down what people have to say about a run; no edit overwrites another unseen."""

from datetime import datetime

from django.db import transaction

from runs.models import Run, RunNote
from runs.selectors import RunNotFound
from runs.selectors.notes import newest_note
from runs.services.events import ACTOR_LENGTH, record_event


class NotesChanged(Exception):
    """Somebody edited the notes since they were read."""

    field = "revision"


@transaction.atomic
def write_notes(
    *, run_id: int, text: str, revision: int, actor: str, reason: str = "", now: datetime
) -> RunNote | None:
    """Make `text` a run's notes, and return them; every earlier text stays.

    The same text again changes nothing, so a lost answer may be asked for twice.

    Args:
        run_id: A run, which may be over.
        text: Markdown; empty takes the notes away.
        revision: Of the notes that the writer had before them; 0 for none.
        actor: Who writes.
        reason: Why, for the run's history.
        now: Time of the edit.

    Returns:
        The notes as they are now; None where there never were any.

    Raises:
        RunNotFound: If there is no such current run.
        NotesChanged: If somebody else wrote a later revision.
    """
    # Locked, so that of two edits at the same time the second one sees the first.
    if not Run.objects.current().select_for_update(no_key=True).filter(pk=run_id).exists():
        raise RunNotFound(f"there is no current run with id {run_id}")
    before = newest_note(run_id)
    if text == (before.text if before else ""):
        return before
    number = before.revision if before else 0
    if number != revision:
        author = before.author if before else "nobody"
        raise NotesChanged(
            f"{author} wrote revision {number} meanwhile; yours begins at {revision}"
        )
    note = RunNote.objects.create(
        run_id=run_id, revision=number + 1, text=text, author=actor[:ACTOR_LENGTH], at=now
    )
    record_event(
        run_id=run_id,
        kind="notes_edited",
        message=f"notes edited, revision {note.revision}" if text else "notes taken away",
        actor=actor,
        reason=reason,
        details={
            "revision": {"before": number or None, "after": note.revision},
            "letters": {"before": len(before.text) if before else 0, "after": len(text)},
        },
        now=now,
    )
    return note
