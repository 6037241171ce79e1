"""API views of run notes."""

from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from runs.access.api.identity import identity_of
from runs.access.api.permissions import Operators, Readers
from runs.lifecycle.queries import note_at, notes_of, readable_run_id, run_id_named
from runs.lifecycle.schemas import Note, Notes, WriteNotes
from runs.lifecycle.services.notes import write_notes
from web.http.bodies import answer, read
from web.http.openapi import problems
from web.http.views import ApiView


class NotesView(ApiView):
    """The notes of a run."""

    def get_permissions(self) -> list[BasePermission]:
        """Return the permission: readers get notes, operators write them."""
        return [Operators() if self.request.method == "PUT" else Readers()]

    @extend_schema(
        operation_id="run_notes_get",
        responses={200: Notes},
        tags=["runs"],
    )
    def get(self, request: Request, run: str) -> HttpResponse:
        """Get a run's notes.

        With their author.
        """
        return answer(notes_of(readable_run_id(run)))

    @extend_schema(
        operation_id="run_notes_replace",
        request=WriteNotes,
        responses={200: Notes, **problems(409)},
        tags=["runs"],
    )
    def put(self, request: Request, run: str) -> HttpResponse:
        """Replace a run's notes.

        Refused if they have changed since you read them.
        """
        body, run_id = read(request, WriteNotes), run_id_named(run)
        write_notes(
            run_id=run_id,
            text=body.text,
            revision=body.revision,
            actor=identity_of(request),
            reason=body.reason,
            now=timezone.now(),
        )
        return answer(notes_of(run_id))


class NoteView(ApiView):
    """One revision of a run's notes."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="run_notes_revision",
        responses={200: Note},
        tags=["runs"],
    )
    def get(self, request: Request, run: str, revision: int) -> HttpResponse:
        """Get a revision of a run's notes."""
        return answer(note_at(readable_run_id(run), revision))
