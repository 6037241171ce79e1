"""API of weight syncs to the workers of a run."""

from django.http import HttpResponse
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request

from rollouts.control.queries.weight_syncs import SYNCS_AT_MOST, deliveries
from rollouts.control.schemas.weight_syncs import WeightSyncs
from runs.access.api.permissions import Readers
from runs.lifecycle.queries import readable_run_id
from web.http import bodies
from web.http.openapi import between
from web.http.paging import page_of, page_parameters
from web.http.views import ApiView

VERSIONS = 20


class WeightSyncsView(ApiView):
    """Weight syncs of a run."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="weights_syncs",
        parameters=[
            OpenApiParameter(
                "versions",
                between(1, 200),
                description="Number of newest versions: 1 to 200, default 20.",
            ),
            *page_parameters(default=SYNCS_AT_MOST, most=SYNCS_AT_MOST),
        ],
        responses={200: WeightSyncs},
        tags=["weights"],
    )
    def get(self, request: Request, run: str) -> HttpResponse:
        """List weight syncs.

        When each worker was notified of, had loaded and used the newest versions; newest
        version first, then by worker.
        """
        versions = bodies.whole_number(
            request, "versions", default=VERSIONS, at_least=1, at_most=200
        )
        page = page_of(
            request,
            tuple[int, int, int],
            default=SYNCS_AT_MOST,
            most=SYNCS_AT_MOST,
        )
        found = deliveries(
            readable_run_id(run),
            versions=versions or VERSIONS,
            after=page.after,
            limit=page.limit + 1,
        )
        rows, cursor = page.cut(found, lambda row: (row.epoch, row.step, row.worker))
        return bodies.answer(WeightSyncs(results=rows, next=cursor))
