"""API of the diagnoses of several runs."""

from typing import Final

from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request

from rollouts.diagnosis.queries.pipelines import diagnoses, pipeline_of
from rollouts.diagnosis.schemas import DiagnosisList, Pipeline
from runs.access.api.permissions import Readers
from runs.lifecycle.queries import readable_run
from web.http import bodies
from web.http.openapi import listed
from web.http.views import ApiView

RUNS_AT_MOST: Final = 12
"""Maximum number of runs, as many as a page shows; each diagnosis takes several queries."""


class DiagnosesView(ApiView):
    """Diagnoses of several runs."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="run_diagnoses",
        parameters=[
            OpenApiParameter(
                "ids", listed(12), required=True, description="Comma-separated run ids."
            )
        ],
        responses={200: DiagnosisList},
        tags=["fleet"],
    )
    def get(self, request: Request) -> HttpResponse:
        """Get diagnoses of runs.

        The bottleneck of each run; deleted runs are omitted.
        """
        words = request.query_params.get("ids", "").split(",")
        if len(words) > RUNS_AT_MOST or not all(
            word.isascii() and word.isdigit() and len(word) < 19 for word in words
        ):
            raise bodies.InvalidBody("ids", f"must be 1 to {RUNS_AT_MOST} comma-separated ids")
        found = diagnoses([int(word) for word in words], now=timezone.now())
        return bodies.answer(DiagnosisList(results=found))


class PipelineView(ApiView):
    """Data flow through a run."""

    permission_classes = [Readers]

    @extend_schema(operation_id="pipeline_get", responses={200: Pipeline}, tags=["fleet"])
    def get(self, request: Request, run: str) -> HttpResponse:
        """Get the pipeline diagnosis.

        Throughput of each stage within the last minute, and the bottleneck.
        """
        return bodies.answer(pipeline_of(readable_run(run), now=timezone.now()))
