"""Queries for the recordings of a run, and their files."""

from datetime import datetime
from typing import Final
from uuid import UUID

from django.core.files import File
from django.core.files.storage import default_storage
from django.db.models import Q

from rollouts.control.models import Recording
from rollouts.control.schemas import RecordingRow
from web.rules.errors import NotFound

PREVIEW_BYTES: Final = 8192


class NoRecording(NotFound):
    """The recording does not exist, is not finished, or was removed by retention."""


def recordings(
    run_id: int, *, after: tuple[datetime, UUID] | None, limit: int
) -> list[RecordingRow]:
    """Return the recordings of a run, newest first.

    `after` is request time and id of the last recording of the previous page.
    """
    found = Recording.objects.filter(run_id=run_id)
    if after is not None:
        requested_at, pk = after
        found = found.filter(
            Q(requested_at__lt=requested_at) | Q(requested_at=requested_at, pk__gt=pk)
        )
    return [recording_row(row) for row in found.order_by("-requested_at", "pk")[:limit]]


def recording_row(row: Recording) -> RecordingRow:
    """Return a recording in the API format."""
    names = set(RecordingRow.__struct_fields__) - {"id"}
    return RecordingRow(id=str(row.pk), **{name: getattr(row, name) for name in names})


def recording(run_id: int, recording_id: UUID) -> Recording:
    """Return a finished recording.

    Raises:
        NoRecording: If there is none.
    """
    found = Recording.objects.filter(run_id=run_id, pk=recording_id, state="ready").first()
    if found is None:
        raise NoRecording(f"recording {recording_id} has no file")
    return found


def open_recording(row: Recording) -> "File[bytes]":
    """Return the open file of a recording.

    Raises:
        NoRecording: If retention has just removed it, or the file is lost.
    """
    try:
        return default_storage.open(row.file)
    except FileNotFoundError as error:
        is_kept = Recording.objects.filter(pk=row.pk, file=row.file).exists()
        lost = f"is not in ROLLDECK_VAR/media of this server: {row.file}"
        why = lost if is_kept else "was removed by retention"
        raise NoRecording(f"the file of recording {row.pk} {why}") from error


def recording_preview(row: Recording) -> str:
    """Return the beginning of a text recording; empty for a video or a removed file."""
    if not row.media_type.startswith("text/"):
        return ""
    try:
        with open_recording(row) as file:
            begin: bytes = file.read(PREVIEW_BYTES)
    except NoRecording:
        return ""
    return begin.decode(errors="replace")
