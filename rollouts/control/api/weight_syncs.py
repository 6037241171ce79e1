"""API of weight syncs to the workers of a run."""

from django.http import HttpResponse
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.views import APIView

from rollouts.control.queries.weight_syncs import deliveries
from rollouts.control.schemas.weight_syncs import Deliveries
from runs.access.api.permissions import Readers
from runs.lifecycle.queries.runs import readable_run_id
from web.http import bodies
from web.http.openapi import between

VERSIONS = 20


class DeliveriesView(APIView):
    """Weight syncs of a run."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="weights_deliveries",
        parameters=[
            OpenApiParameter(
                "versions",
                between(1, 200),
                description="Number of newest versions: 1 to 200, default 20.",
            )
        ],
        responses={200: Deliveries},
        tags=["weights"],
    )
    def get(self, request: Request, run: str) -> HttpResponse:
        """List weight syncs.

        When each worker was notified of, had loaded and used the newest versions.
        """
        versions = bodies.whole_number(
            request, "versions", default=VERSIONS, at_least=1, at_most=200
        )
        found = deliveries(readable_run_id(run), versions=versions or VERSIONS)
        return bodies.answer(Deliveries(results=found))
