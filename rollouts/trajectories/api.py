"""API of the search for trajectories in all runs."""

from typing import Final

from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request

from rollouts.trajectories.queries import found_trajectories, searched_runs
from rollouts.trajectories.rules import (
    LONGEST_TEXT,
    Position,
    TrajectoryKind,
    TrajectorySort,
    parse_search,
)
from rollouts.trajectories.schemas import TrajectoryList
from runs.access.api.identity import caller_of
from runs.access.api.permissions import ReadersOfAnyRun
from runs.access.rules import READ
from web.http.bodies import InvalidBody, answer
from web.http.openapi import problems
from web.http.paging import page_of, page_parameters
from web.http.views import ApiView
from web.rules.errors import Forbidden

PAGE_AT_MOST: Final = 200
_FILTERS: Final = [
    OpenApiParameter(
        "kind",
        enum=list(TrajectoryKind),
        description="Groups of outside and language runs, or episodes of fleets. Default: group.",
    ),
    OpenApiParameter(
        "q",
        {"type": "string", "maxLength": LONGEST_TEXT},
        description=(
            'Words in the messages of groups: word "exact phrase" -without. Covers the first 6,000'
            " characters of a group."
        ),
    ),
    OpenApiParameter("run", description="Only the run at this address, also if archived."),
    OpenApiParameter(
        "runs",
        {"type": "string", "maxLength": 1000},
        description="Filter of the list of runs, such as `project:maze tag:baseline`.",
    ),
    OpenApiParameter(
        "environment",
        {"type": "string", "maxLength": LONGEST_TEXT},
        description="Whole name of an environment or a lesson.",
    ),
    *(
        OpenApiParameter(
            f"score_{end}", float, description=f"{word} mean score of a group, or return."
        )
        for end, word in (("min", "Least"), ("max", "Greatest"))
    ),
    *(
        OpenApiParameter(
            name, OpenApiTypes.STR, description=f"{word} arrival of a group, or report, in UTC."
        )
        for name, word in (("since", "Earliest"), ("until", "Latest"))
    ),
    OpenApiParameter(
        "sort",
        enum=list(TrajectorySort),
        description="`-score` begins with the highest score. Default: newest.",
    ),
    *page_parameters(default=50, most=PAGE_AT_MOST),
]


class TrajectoriesView(ApiView):
    """Trajectories of all runs that the caller may read."""

    permission_classes = [ReadersOfAnyRun]

    @extend_schema(
        operation_id="trajectories_list",
        parameters=_FILTERS,
        responses={200: TrajectoryList, **problems(404, 503)},
        tags=["groups"],
    )
    def get(self, request: Request) -> HttpResponse:
        """List trajectories of all runs.

        Groups, or training episodes of fleets, with stored metadata; newest first, or by score. A
        token that is bound to a run finds the trajectories of this run.
        """
        search = parse_search(request.query_params)
        page = page_of(request, Position, default=50, most=PAGE_AT_MOST)
        bound_to = caller_of(request).run
        names = {name: request.query_params.get(name, "") for name in ("run", "runs")}
        for name, text in names.items():
            if "\x00" in text:
                raise InvalidBody(name, "must not contain the NUL character")
        if bound_to is not None and names["run"] not in ("", bound_to):
            raise Forbidden(READ.refusal(caller_of(request), run=names["run"]))
        covered = searched_runs(
            run=names["run"],
            runs=names["runs"],
            bound_to=bound_to,
            kind=search.kind,
            now=timezone.now(),
        )
        found = found_trajectories(covered.runs, search, limit=page.limit, after=page.after)
        return answer(
            TrajectoryList(
                results=found.rows,
                next=None if found.next is None else page.cursor(found.next),
                is_partial=found.is_partial,
                runs=len(covered.runs),
                runs_left_out=covered.left_out,
            )
        )
