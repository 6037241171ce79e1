"""Show and edit the notes of a run."""

from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.views import APIView

from runs import services
from runs.api.bodies import answer, read
from runs.api.identity import identity_of
from runs.api.openapi import problems
from runs.api.permissions import Operators, Readers
from runs.selectors import run_id_named
from runs.selectors.notes import note_at, notes_of
from runs.wire.notes import Note, Notes, WriteNotes


class NotesView(APIView):
    """The notes of a run."""

    def get_permissions(self) -> list[BasePermission]:
        """Let readers look and operators write."""
        return [Operators() if self.request.method == "PUT" else Readers()]

    @extend_schema(
        operation_id="runs_notes",
        responses={200: Notes, **problems(401, 403, 404)},
        tags=["runs"],
    )
    def get(self, request: Request, run: str) -> HttpResponse:
        """Show what people wrote about the run, and who did."""
        return answer(notes_of(run_id_named(run)))

    @extend_schema(
        operation_id="runs_write_notes",
        request=WriteNotes,
        responses={200: Notes, **problems(400, 401, 403, 404, 409)},
        tags=["runs"],
    )
    def put(self, request: Request, run: str) -> HttpResponse:
        """Give the run these notes; refused if somebody else wrote since they were read."""
        wanted, run_id = read(request, WriteNotes), run_id_named(run)
        services.write_notes(
            run_id=run_id,
            text=wanted.text,
            revision=wanted.revision,
            actor=identity_of(request),
            reason=wanted.reason,
            now=timezone.now(),
        )
        return answer(notes_of(run_id))


class NoteView(APIView):
    """The notes of a run as one edit left them."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="runs_note",
        responses={200: Note, **problems(401, 403, 404)},
        tags=["runs"],
    )
    def get(self, request: Request, run: str, revision: int) -> HttpResponse:
        """Show an earlier text of the notes."""
        return answer(note_at(run_id_named(run), revision))
