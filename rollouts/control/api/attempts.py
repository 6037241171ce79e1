"""API of the incarnations of a fleet's workers."""

from typing import Final

from django.http import HttpResponse
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request

from rollouts.control.queries.attempts import attempts
from rollouts.control.schemas.attempts import Attempts
from runs.access.api.permissions import Readers
from runs.lifecycle.queries import readable_run
from web.http import bodies
from web.http.openapi import between
from web.http.paging import page_of, page_parameters
from web.http.views import ApiView

MOST_INDEX: Final = 2**31 - 1
ROWS_AT_MOST: Final = 1000


class AttemptsView(ApiView):
    """Incarnations of a fleet's workers."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="worker_attempts_list",
        parameters=[
            OpenApiParameter(
                "worker", between(0, MOST_INDEX), description="Index of one worker; all if absent."
            ),
            *page_parameters(default=100, most=ROWS_AT_MOST),
        ],
        responses={200: Attempts},
        tags=["fleet"],
    )
    def get(self, request: Request, run: str) -> HttpResponse:
        """List worker incarnations.

        Newest first, with machine, lifetime and exit reason.
        """
        worker = bodies.whole_number(
            request, "worker", default=None, at_least=0, at_most=MOST_INDEX
        )
        page = page_of(request, int, default=100, most=ROWS_AT_MOST)
        found = attempts(
            readable_run(run).pk, worker=worker, before=page.after, limit=page.limit + 1
        )
        rows, cursor = page.cut(found, lambda row: row.id)
        return bodies.answer(Attempts(results=rows, next=cursor))
