"""Hand out whole selections of groups, never all in memory."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Final

from django.core.handlers.asgi import ASGIRequest
from django.db import connections
from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.views import APIView

from buffer.api.archives import PARQUET
from buffer.api.group_lists import FILTERS, filter_of
from buffer.selectors import group_exports
from runs import selectors as runs_selectors
from runs.api.bodies import InvalidBody, whole_number
from runs.api.openapi import problems
from runs.api.permissions import Readers

JSON_LINES: Final = "application/jsonl"
MOST_GROUPS: Final = 1_000_000
_FORMATS: Final = {"jsonl": JSON_LINES, "parquet": PARQUET}


class _LoopParts:
    """Parts for an asynchronous server, which would collect a plain iterator in memory."""

    def __init__(self, parts: Iterator[bytes]) -> None:
        self._parts = parts

    def _next(self) -> bytes | None:
        try:
            return next(self._parts, None)
        finally:
            # The next part may be made in another thread, which has a connection of its own.
            connections.close_all()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (part := await asyncio.to_thread(self._next)) is not None:
            yield part


class GroupExportView(APIView):
    """A selection of a run's groups as a file."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="groups_export",
        parameters=[
            *FILTERS,
            OpenApiParameter("form", OpenApiTypes.STR, enum=list(_FORMATS)),
            OpenApiParameter("limit", OpenApiTypes.INT),
        ],
        responses={
            (200, JSON_LINES): OpenApiTypes.BINARY,
            (200, PARQUET): OpenApiTypes.BINARY,
            **problems(400, 401, 403, 404, 501),
        },
        tags=["groups"],
    )
    def get(self, request: Request, run: str) -> StreamingHttpResponse:
        """Download the groups that a filter finds: a line of JSON each, or rows of Parquet."""
        form = request.query_params.get("form", "jsonl")
        if form not in _FORMATS:
            raise InvalidBody("form", f"{form[:40]!r} is none of {', '.join(_FORMATS)}")
        limit = whole_number(request, "limit", default=MOST_GROUPS, at_least=1, at_most=MOST_GROUPS)
        found = runs_selectors.run_named(run)
        write = group_exports.parquet if form == "parquet" else group_exports.json_lines
        parts = write(found.pk, filter_of(request), limit=limit or MOST_GROUPS)
        is_async = isinstance(request._request, ASGIRequest)  # noqa: SLF001 the only way to it
        return StreamingHttpResponse(
            _LoopParts(parts) if is_async else parts,
            content_type=_FORMATS[form],
            headers={
                "Content-Disposition": f'attachment; filename="{found.name}-groups.{form}"',
                "Cache-Control": "private, no-store",
            },
        )
