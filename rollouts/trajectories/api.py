"""API of lists of samples of several runs, and of the language of their filters."""

from typing import Final

from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request

from buffer.inspect.rules.facts import is_fact
from buffer.inspect.rules.sample_filter import (
    NEWEST,
    QUALIFIERS,
    SORTS,
    InvalidSearch,
    Position,
    SampleFilter,
    SampleKind,
    parse_samples,
)
from rollouts.trajectories import queries
from rollouts.trajectories.schemas import TrajectoryList
from runs.access.api.identity import caller_of
from runs.access.api.permissions import ReadersOfAnyRun
from runs.access.rules import READ
from runs.search.queries import columns
from runs.search.queries.lists import qualifier_rows
from runs.search.rules import LONGEST_FILTER
from runs.search.schemas import QualifierList, ValueList
from web.http.bodies import InvalidBody, answer, text_parameter, whole_number
from web.http.openapi import between, listed, problems
from web.http.paging import page_of, page_parameters
from web.http.views import ApiView
from web.rules.errors import Forbidden

PAGE_AT_MOST: Final = 200
_KIND: Final = OpenApiParameter(
    "kind",
    enum=list(SampleKind),
    description="Groups of outside and language runs; episodes or fragments of fleets. Default: "
    "group.",
)
_RUN: Final = OpenApiParameter("run", description="Only the run at this address.")
_SORTS: Final = dict.fromkeys(
    sort for sorts in SORTS.values() for sort in sorts if not sort.startswith("-")
)
_LIST: Final = [
    _KIND,
    _RUN,
    OpenApiParameter(
        "q",
        {"type": "string", "maxLength": LONGEST_FILTER},
        description='A filter, such as `run:a,b env:math score:<0.2 is:truncated "free text"`.',
    ),
    OpenApiParameter(
        "sort",
        description=f"{', '.join(f'`{key}`' for key in _SORTS)}, or of groups `meta.KEY` or "
        f"`override.KEY`. A minus begins with the greatest value. Default: `{NEWEST}`.",
    ),
    OpenApiParameter(
        "columns",
        listed(columns.AT_MOST),
        description="Metadata and overrides of groups, such as `meta.difficulty,override.level`.",
    ),
    OpenApiParameter(
        "from_group",
        between(1, (1 << 63) - 1),
        description="Begin the first page next to this group of the run, without it.",
    ),
    OpenApiParameter(
        "backward",
        OpenApiTypes.BOOL,
        description="With `from_group`: read in reverse order. Default: false.",
    ),
    *page_parameters(default=50, most=PAGE_AT_MOST),
]


def _kind(request: Request) -> SampleKind:
    text = request.query_params.get("kind", "") or SampleKind.GROUP
    try:
        return SampleKind(text)
    except ValueError:
        raise InvalidSearch(
            "kind", f"{text[:40]!r} is not one of {', '.join(SampleKind)}"
        ) from None


def _covered(request: Request, wanted: SampleFilter) -> queries.SampledRuns:
    """Return the runs of a list that the caller may read.

    Raises:
        Forbidden: If a token is bound to another run.
    """
    run, caller = text_parameter(request, "run"), caller_of(request)
    bound_to = caller.run
    if run and caller.is_bound_elsewhere(run):
        raise Forbidden(READ.refusal(caller, run=run))
    return queries.sampled_runs(wanted, run=run, bound_to=bound_to)


def _columns(request: Request) -> list[str]:
    """Return the columns of a list that have names of their own.

    Raises:
        InvalidColumns: If there are too many, or one cannot be the key of a fact.
    """
    named = [name for name in text_parameter(request, "columns").split(",") if name]
    if len(named) > columns.AT_MOST:
        raise columns.InvalidColumns(f"{len(named)} columns, at most {columns.AT_MOST} allowed")
    for name in named:
        if not is_fact(name):
            raise columns.InvalidColumns(f"{name[:40]!r} is neither meta.KEY nor override.KEY")
    return named


class TrajectoriesView(ApiView):
    """Samples of all runs that the caller may read."""

    permission_classes = [ReadersOfAnyRun]

    @extend_schema(
        operation_id="trajectories_list",
        parameters=_LIST,
        responses={200: TrajectoryList, **problems(404, 503)},
        tags=["groups"],
    )
    def get(self, request: Request) -> HttpResponse:
        """List trajectories of runs.

        Groups, training episodes or fragments with stored metadata; newest first, or by a column.
        A token that is bound to a run finds the samples of this run.
        """
        query = request.query_params
        wanted = parse_samples(query.get("q", ""), kind=_kind(request), sort=query.get("sort", ""))
        group = whole_number(request, "from_group", default=None, at_least=1, at_most=(1 << 63) - 1)
        beside = None
        if group is not None:
            is_backward = query.get("backward", "") in {"1", "true"}
            beside = queries.Beside(group=group, backward=is_backward)
        found = queries.samples(
            _covered(request, wanted),
            wanted,
            page_of(request, Position, default=50, most=PAGE_AT_MOST),
            beside=beside,
            named=_columns(request),
            now=timezone.now(),
        )
        return answer(found)


class TrajectoryFilterView(ApiView):
    """The filter language of samples."""

    permission_classes = [ReadersOfAnyRun]

    @extend_schema(
        operation_id="trajectory_filter_get",
        parameters=[_KIND],
        responses={200: QualifierList},
        tags=["groups"],
    )
    def get(self, request: Request) -> HttpResponse:
        """Get the trajectory filter syntax.

        Fields, operators and an example of each, in a fixed order.
        """
        rows = qualifier_rows(QUALIFIERS[_kind(request)].values())
        return answer(QualifierList(results=rows, next=None))


class TrajectoryValuesView(ApiView):
    """Values of a qualifier of samples."""

    permission_classes = [ReadersOfAnyRun]

    @extend_schema(
        operation_id="trajectory_filter_values",
        parameters=[
            _KIND,
            _RUN,
            OpenApiParameter(
                "of",
                required=True,
                description=f"{', '.join(f'`{name}`' for name in queries.VALUES_OF)}, or of groups "
                "`meta.KEY` or `override.KEY`.",
            ),
            OpenApiParameter("part", description="Text that the values contain."),
        ],
        responses={200: ValueList, **problems(404, 503)},
        tags=["groups"],
    )
    def get(self, request: Request) -> HttpResponse:
        """List values for the trajectory filter.

        Most frequent among the newest samples first.
        """
        of, kind = request.query_params.get("of", ""), _kind(request)
        if of not in queries.VALUES_OF and not is_fact(of):
            names = ", ".join(queries.VALUES_OF)
            raise InvalidBody("of", f"must be one of {names}, meta.KEY, override.KEY")
        if of.partition(".")[0] not in QUALIFIERS[kind]:
            raise InvalidBody("of", f"{kind}s have no {of}")
        covered = _covered(request, SampleFilter(kind=kind))
        found = queries.values(covered, kind=kind, of=of, part=text_parameter(request, "part"))
        return answer(ValueList(results=found, next=None))


class TrajectoryColumnsView(ApiView):
    """Columns of lists of groups."""

    permission_classes = [ReadersOfAnyRun]

    @extend_schema(
        operation_id="trajectory_columns",
        parameters=[_RUN],
        responses={200: ValueList, **problems(404, 503)},
        tags=["groups"],
    )
    def get(self, request: Request) -> HttpResponse:
        """List columns of trajectories.

        Keys of the metadata and overrides of the newest groups, most frequent first, with their
        numbers of groups; at most 200.
        """
        covered = _covered(request, SampleFilter())
        return answer(ValueList(results=queries.fact_keys(covered), next=None))
