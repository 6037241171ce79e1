"""API view that exports selections of groups, streamed in bounded memory."""

from typing import Final

from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request

from buffer.archive.api.archives import PARQUET
from buffer.archive.queries import group_exports
from buffer.inspect.api.group_lists import FILTERS, filter_of
from buffer.items.api.streaming import streamed
from runs.access.api.permissions import Readers
from runs.lifecycle.queries.runs import readable_run
from web.http.bodies import InvalidBody, whole_number
from web.http.openapi import between, problems
from web.http.views import ApiView

JSON_LINES: Final = "application/jsonl"
MOST_GROUPS: Final = 1_000_000
_FORMATS: Final = {"jsonl": JSON_LINES, "parquet": PARQUET}


class GroupExportView(ApiView):
    """A selection of a run's groups as a file."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="groups_export",
        parameters=[
            *FILTERS,
            OpenApiParameter("form", OpenApiTypes.STR, enum=list(_FORMATS)),
            OpenApiParameter("limit", between(1, MOST_GROUPS)),
        ],
        responses={
            (200, JSON_LINES): OpenApiTypes.BINARY,
            (200, PARQUET): OpenApiTypes.BINARY,
            **problems(409, 501),
        },
        tags=["groups"],
    )
    def get(self, request: Request, run: str) -> StreamingHttpResponse:
        """Export trajectory groups.

        Groups that match the filter, as JSON lines or Parquet. Simulated data is refused to tokens
        unless the run serves it.
        """
        form = request.query_params.get("form", "jsonl")
        if form not in _FORMATS:
            raise InvalidBody("form", f"{form[:40]!r} is not one of {', '.join(_FORMATS)}")
        limit = whole_number(request, "limit", default=MOST_GROUPS, at_least=1, at_most=MOST_GROUPS)
        found = readable_run(run)
        write = group_exports.parquet if form == "parquet" else group_exports.json_lines
        parts = write(found, filter_of(request), limit=limit or MOST_GROUPS)
        return streamed(
            request, parts, content_type=_FORMATS[form], filename=f"{found.name}-groups.{form}"
        )
