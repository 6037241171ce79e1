"""API view of prompts that several runs share."""

from typing import Final

from django.http import HttpResponse
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request

from buffer.inspect.queries.prompts import shared_prompts
from buffer.inspect.schemas import PromptList
from runs.access.api.permissions import Readers
from runs.lifecycle.queries import readable_run
from web.http.bodies import InvalidBody, answer
from web.http.openapi import listed, problems
from web.http.views import ApiView

RUNS_AT_MOST: Final = 20


class PromptsView(ApiView):
    """Prompts of several runs."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="prompts_list",
        parameters=[
            OpenApiParameter(
                "runs", listed(20), required=True, description="Names, comma-separated."
            )
        ],
        responses={200: PromptList, **problems(404, 503)},
        tags=["groups"],
    )
    def get(self, request: Request) -> HttpResponse:
        """List recent prompts of runs.

        Most widely shared first, with the scores of each prompt.
        """
        text = request.query_params.get("runs", "")
        names = list(dict.fromkeys(name for name in text.split(",") if name))
        if not 1 <= len(names) <= RUNS_AT_MOST or "\x00" in text:
            raise InvalidBody("runs", f"must name 1 to {RUNS_AT_MOST} runs")
        runs = {readable_run(name).pk: name for name in names}
        return answer(PromptList(results=shared_prompts(runs), next=None))
