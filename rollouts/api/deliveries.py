"""Show how weights reached the workers of a run."""

from django.http import HttpResponse
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.views import APIView

from rollouts.selectors.deliveries import deliveries
from rollouts.wire import Deliveries
from runs.api import bodies
from runs.api.openapi import problems
from runs.api.permissions import Readers
from runs.selectors import run_id_named

VERSIONS = 20


class DeliveriesView(APIView):
    """Weights on their way."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="weights_deliveries",
        parameters=[
            OpenApiParameter("versions", int, description="Newest ones; 1 to 200, 20 if absent.")
        ],
        responses={200: Deliveries, **problems(400, 401, 403, 404)},
        tags=["weights"],
    )
    def get(self, request: Request, run: str) -> HttpResponse:
        """Return when each worker knew of the newest versions, had them, and acted with them."""
        versions = bodies.whole_number(
            request, "versions", default=VERSIONS, at_least=1, at_most=200
        )
        found = deliveries(run_id_named(run), versions=versions or VERSIONS)
        return bodies.answer(Deliveries(results=found))
