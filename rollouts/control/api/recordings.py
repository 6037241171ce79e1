"""API of episode recordings: requests, uploads and downloads."""

from datetime import datetime
from uuid import UUID

import msgspec
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request

from rolldeck.operator_requests import RECORDING_TYPE, RecordingUpdate
from rollouts.control.queries import recordings as queries_recordings
from rollouts.control.queries.recordings import open_recording, recording_row, recordings
from rollouts.control.schemas import RecordingRequest, RecordingRow, Recordings
from rollouts.control.services.recordings import request_recordings, update_recording
from runs.access.api.identity import identity_of
from runs.access.api.permissions import Operators, Readers, scoped
from runs.lifecycle.queries import readable_run, run_named
from web.http import bodies, byte_ranges
from web.http.openapi import msgpack_of, problems
from web.http.paging import page_of, page_parameters
from web.http.views import ApiView


class RecordingsView(ApiView):
    """The recordings of a run."""

    def get_permissions(self) -> list[object]:  # type: ignore[override]
        """Return the permissions: operators request recordings, all readers of the run read."""
        return [Operators() if self.request.method == "POST" else Readers()]

    @extend_schema(
        operation_id="recordings_list",
        parameters=page_parameters(default=100, most=500),
        responses={200: Recordings},
        tags=["recordings"],
    )
    def get(self, request: Request, run: str) -> HttpResponse:
        """List recordings.

        Newest first.
        """
        page = page_of(request, tuple[datetime, UUID], default=100, most=500)
        found = recordings(readable_run(run).pk, after=page.after, limit=page.limit + 1)
        rows, cursor = page.cut(found, lambda row: (row.requested_at, UUID(row.id)))
        return bodies.answer(Recordings(results=rows, next=cursor))

    @extend_schema(
        operation_id="recordings_request",
        request=RecordingRequest,
        responses={201: Recordings, **problems(429, 507)},
        tags=["recordings"],
    )
    def post(self, request: Request, run: str) -> HttpResponse:
        """Request recordings.

        The fleet records the next episodes of the given slots.
        """
        body = bodies.read(request, RecordingRequest)
        rows = request_recordings(
            run_id=run_named(run).pk, body=body, actor=identity_of(request), now=timezone.now()
        )
        shown = [recording_row(row) for row in rows]
        return bodies.answer(Recordings(results=shown, next=None), status=201)


class RecordingView(ApiView):
    """One recording, for its worker."""

    permission_classes = [scoped("worker")]

    @extend_schema(
        operation_id="recordings_update",
        request={RECORDING_TYPE: msgpack_of("RecordingUpdate")},
        responses={200: RecordingRow, **problems(413)},
        tags=["recordings"],
    )
    def put(self, request: Request, run: str, recording: UUID) -> HttpResponse:
        """Update a recording.

        Progress, or the video once it is ready.
        """
        try:
            update = msgspec.msgpack.decode(request.body, type=RecordingUpdate)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise bodies.InvalidBody("", f"not a valid recording: {error}") from error
        row = update_recording(
            run_id=run_named(run).pk, recording_id=recording, update=update, now=timezone.now()
        )
        return bodies.answer(recording_row(row))


class RecordingContentView(ApiView):
    """File of a recording."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="recordings_content",
        parameters=[OpenApiParameter("Range", location=OpenApiParameter.HEADER)],
        responses={
            (200, "video/webm"): OpenApiTypes.BINARY,
            (206, "video/webm"): OpenApiTypes.BINARY,
            (200, "text/plain"): OpenApiTypes.STR,
            (206, "text/plain"): OpenApiTypes.STR,
            **problems(416),
        },
        tags=["recordings"],
    )
    def get(self, request: Request, run: str, recording: UUID) -> HttpResponseBase:
        """Download a recording.

        Supports byte ranges. An episode of text is returned as plain text.
        """
        row = queries_recordings.recording(readable_run(run).pk, recording)
        file = open_recording(row)
        response = byte_ranges.respond(request, file, size=row.size_bytes, etag=row.pk.hex)
        if "Content-Type" in response:
            charset = "; charset=utf-8" if row.media_type.startswith("text/") else ""
            response["Content-Type"] = row.media_type + charset
        # Untrusted bytes from a worker: serve them only as the declared type, never as a page.
        response["X-Content-Type-Options"] = "nosniff"
        response["Content-Security-Policy"] = "default-src 'none'; sandbox"
        return response
