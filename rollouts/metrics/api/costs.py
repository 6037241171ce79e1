"""API of the costs of runs."""

from typing import Final

from django.http import HttpResponse
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request

from rollouts.metrics.queries.costs import run_costs
from rollouts.metrics.schemas.costs import RunCosts
from runs.access.api.permissions import Readers
from runs.lifecycle.queries.runs import readable_run
from web.http.bodies import InvalidBody, answer
from web.http.openapi import listed, problems
from web.http.views import ApiView

RUNS_AT_MOST: Final = 20


class CostsView(ApiView):
    """Costs of several runs."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="run_costs",
        parameters=[
            OpenApiParameter(
                "runs", listed(20), required=True, description="Comma-separated run names."
            )
        ],
        responses={200: RunCosts, **problems(404)},
        tags=["runs"],
    )
    def get(self, request: Request) -> HttpResponse:
        """Get the costs of runs.

        Used and dropped data of runs, and the lifetime of their workers, in the order of `runs`.
        """
        text = request.query_params.get("runs", "")
        names = list(dict.fromkeys(name for name in text.split(",") if name))
        if not 1 <= len(names) <= RUNS_AT_MOST or "\x00" in text:
            raise InvalidBody("runs", f"must contain 1 to {RUNS_AT_MOST} run names")
        found = run_costs([readable_run(name) for name in names])
        return answer(RunCosts(results=found, next=None))
