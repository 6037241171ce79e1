"""API views of archives and exports."""

from typing import Any, Final

from django.http import HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from buffer.archive import jobs, queries, schemas
from buffer.archive.models import ArchiveJob
from buffer.archive.queries import archive_jobs, run_of_archive
from buffer.archive.rules import Window, window
from buffer.archive.services.archive_jobs import (
    ArchiveNotFound,
    archive_file,
    archive_job,
    delete_archive,
    request_archive,
    request_restoration,
)
from buffer.inspect.rules.sample_filter import parse_samples
from buffer.items.api import streamed
from runs.access import rules
from runs.access.api.identity import caller_of, identity_of
from runs.access.api.permissions import Operators, Readers
from runs.lifecycle.queries import readable_run, run_named
from web.http import byte_ranges
from web.http.bodies import InvalidBody, answer, read, whole_number
from web.http.openapi import between, problems
from web.http.paging import page_of, page_parameters
from web.http.views import ApiView

# API views that create, list, download, restore and delete archives.

PARQUET = "application/vnd.apache.parquet"


def _shown(job: ArchiveJob) -> schemas.ArchiveRow:
    fields: dict[str, Any] = {
        name: getattr(job, name)
        for name in schemas.ArchiveRow.__struct_fields__
        if name not in {"source", "has_file"}
    }
    has_file = job.verb == "export" and job.state == "done"
    return schemas.ArchiveRow(**fields, source=job.source_id, has_file=has_file)


def _window(body: schemas.CreateArchive | schemas.RestoreArchive) -> Window:
    return window(states=body.states, steps=body.steps, env_ids=body.env_ids)


class ArchivesView(ApiView):
    """The archives of a run."""

    def get_permissions(self) -> list[BasePermission]:
        return [Operators() if self.request.method == "POST" else Readers()]

    @extend_schema(
        operation_id="archives_list",
        parameters=page_parameters(default=50, most=500),
        responses={200: schemas.ArchiveList},
        tags=["archives"],
    )
    def get(self, request: Request, run: str) -> HttpResponse:
        """List archives.

        Archives and restorations, newest first.
        """
        page = page_of(request, int, default=50, most=500)
        found = archive_jobs(run_id=readable_run(run).pk, before=page.after, limit=page.limit + 1)
        jobs_of_page, cursor = page.cut(found, lambda job: job.pk)
        results = [_shown(job) for job in jobs_of_page]
        return answer(schemas.ArchiveList(results=results, next=cursor))

    @extend_schema(
        operation_id="archives_create",
        request=schemas.CreateArchive,
        responses={202: schemas.ArchiveRow, **problems(429, 507)},
        tags=["archives"],
    )
    def post(self, request: Request, run: str) -> HttpResponse:
        """Create an archive.

        The Parquet file is written in the background.
        """
        body = read(request, schemas.CreateArchive)
        job = request_archive(
            run=run_named(run),
            window=_window(body),
            asked_by=identity_of(request),
            now=timezone.now(),
        )
        jobs.start_archive_jobs()
        return answer(_shown(job), status=202)


class RestorationsView(ApiView):
    """The restorations into a run."""

    permission_classes = [Operators]

    @extend_schema(
        operation_id="restorations_create",
        request=schemas.RestoreArchive,
        responses={202: schemas.ArchiveRow, **problems(409, 429, 507)},
        tags=["archives"],
    )
    def post(self, request: Request, run: str) -> HttpResponse:
        """Restore an archive.

        Queues the items of an archive in this run, in the background.
        """
        body = read(request, schemas.RestoreArchive)
        # Rights on this run do not include the run that the archive was written from.
        source = run_of_archive(body.archive)
        if source is None or not rules.may_operate(caller_of(request), run=source):
            raise ArchiveNotFound(f"archive {body.archive} does not exist")
        job = request_restoration(
            run=run_named(run),
            archive_id=body.archive,
            window=_window(body),
            asked_by=identity_of(request),
            now=timezone.now(),
        )
        jobs.start_archive_jobs()
        return answer(_shown(job), status=202)


class ArchiveView(ApiView):
    """One archive."""

    def get_permissions(self) -> list[BasePermission]:
        return [Operators() if self.request.method == "DELETE" else Readers()]

    @extend_schema(
        operation_id="archives_get",
        responses={200: schemas.ArchiveRow},
        tags=["archives"],
    )
    def get(self, request: Request, run: str, archive: int) -> HttpResponse:
        """Get an archive.

        With its progress.
        """
        found = readable_run(run)
        return answer(_shown(archive_job(run_id=found.pk, job_id=archive)))

    @extend_schema(
        operation_id="archives_delete",
        responses={200: schemas.ArchiveRow, **problems(409)},
        tags=["archives"],
    )
    def delete(self, request: Request, run: str, archive: int) -> HttpResponse:
        """Delete an archive's file.

        The record of the archive is kept.
        """
        job = delete_archive(
            run_id=run_named(run).pk,
            job_id=archive,
            actor=identity_of(request),
            now=timezone.now(),
        )
        return answer(_shown(job))


class ArchiveFileView(ApiView):
    """The file of an archive."""

    permission_classes = [Operators]

    @extend_schema(
        operation_id="archives_download",
        responses={(200, PARQUET): OpenApiTypes.BINARY, **problems(409)},
        tags=["archives"],
    )
    def get(self, request: Request, run: str, archive: int) -> HttpResponseBase:
        """Download an archive.

        Simulated data is refused to tokens unless the run serves it.
        """
        found = readable_run(run)
        job = archive_job(run_id=found.pk, job_id=archive)
        path = archive_file(job)
        size = path.stat().st_size
        response = byte_ranges.respond(
            request, path.open("rb"), size=size, etag=f"archive-{job.pk}"
        )
        response["Content-Type"] = PARQUET
        response["Content-Disposition"] = f'attachment; filename="{found.name}-{job.pk}.parquet"'
        return response


# API view that exports selections of groups, streamed in bounded memory.

JSON_LINES: Final = "application/jsonl"
MOST_GROUPS: Final = 1_000_000
INSPECT_LOG: Final = "application/json"
_INSPECT_SCHEMA: Final = {
    "type": "object",
    "description": "Log of Inspect, with a sample per sequence.",
    "properties": {
        "version": {"type": "integer"},
        "status": {"type": "string"},
        "eval": {"type": "object"},
        "samples": {"type": "array", "items": {"type": "object"}},
    },
    "required": ["version", "status", "eval", "samples"],
}
_FORMATS: Final = {"jsonl": JSON_LINES, "parquet": PARQUET, "inspect": INSPECT_LOG}
_WRITERS: Final = {
    "jsonl": queries.json_lines,
    "parquet": queries.parquet,
    "inspect": queries.inspect_log,
}


class GroupExportView(ApiView):
    """A selection of a run's groups as a file."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="groups_export",
        parameters=[
            OpenApiParameter("q", description="A filter, such as `env:math score:<0.2`."),
            OpenApiParameter("sort", description="A sort key of the list of trajectories."),
            OpenApiParameter("form", OpenApiTypes.STR, enum=list(_FORMATS)),
            OpenApiParameter("limit", between(1, MOST_GROUPS)),
        ],
        responses={
            (200, JSON_LINES): OpenApiTypes.BINARY,
            (200, PARQUET): OpenApiTypes.BINARY,
            (200, INSPECT_LOG): _INSPECT_SCHEMA,
            **problems(409, 501),
        },
        tags=["groups"],
    )
    def get(self, request: Request, run: str) -> StreamingHttpResponse:
        """Export trajectory groups.

        Groups that match the filter, as JSON lines, Parquet, or a log for the viewer of Inspect
        (`form=inspect`, one sample per sequence).
        """
        form = request.query_params.get("form", "jsonl")
        if form not in _FORMATS:
            raise InvalidBody("form", f"{form[:40]!r} is not one of {', '.join(_FORMATS)}")
        limit = whole_number(request, "limit", default=MOST_GROUPS, at_least=1, at_most=MOST_GROUPS)
        found = readable_run(run)
        query = request.query_params
        wanted = parse_samples(query.get("q", ""), sort=query.get("sort", ""))
        parts = _WRITERS[form](found, wanted, limit=limit or MOST_GROUPS, now=timezone.now())
        ending = "eval.json" if form == "inspect" else form
        return streamed(
            request, parts, content_type=_FORMATS[form], filename=f"{found.name}-groups.{ending}"
        )
