"""API views that filter, export and act on many runs."""

from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request

from runs.access.api.identity import identity_of
from runs.access.api.permissions import Operators, Readers
from runs.lifecycle.api.runs import CreateRunView
from runs.lifecycle.models import Run
from runs.lifecycle.queries import run_detail, run_named
from runs.lifecycle.rules import RunStatus
from runs.lifecycle.schemas import RunDetail
from runs.lifecycle.services.lifecycle import set_tags
from runs.search.queries import columns, lists
from runs.search.queries.lists import run_activity
from runs.search.rules import QUALIFIERS
from runs.search.schemas import (
    ActedOn,
    ActedOnRuns,
    ActOnRuns,
    ColumnList,
    QualifierList,
    RunActivityList,
    RunList,
    SetTags,
    ValueList,
)
from runs.search.services import AT_ONCE, BulkAction, act_on
from web.http.bodies import InvalidBody, answer, read, text_parameter
from web.http.openapi import listed
from web.http.paging import page_of, page_parameters
from web.http.views import ApiView

SUMMARIES_AT_MOST = 200


class FilterView(ApiView):
    """The filter language."""

    permission_classes = [Readers]

    @extend_schema(operation_id="run_filter_get", responses={200: QualifierList}, tags=["runs"])
    def get(self, request: Request) -> HttpResponse:
        """Get the run filter syntax.

        Fields, operators and an example of each, in a fixed order.
        """
        return answer(QualifierList(results=lists.qualifier_rows(QUALIFIERS.values()), next=None))


class FilterValuesView(ApiView):
    """Values of a qualifier."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="run_filter_values",
        parameters=[
            OpenApiParameter("of", required=True, enum=list(lists.VALUES_OF)),
            OpenApiParameter("part", description="Text that the values contain."),
        ],
        responses={200: ValueList},
        tags=["runs"],
    )
    def get(self, request: Request) -> HttpResponse:
        """List values for the run filter.

        Most frequent first.
        """
        of = request.query_params.get("of", "")
        if of not in lists.VALUES_OF:
            raise InvalidBody("of", f"must be one of {', '.join(lists.VALUES_OF)}")
        found = lists.filter_values(of=of, part=text_parameter(request, "part"))
        return answer(ValueList(results=found, next=None))


class RunColumnsView(ApiView):
    """Columns of lists of runs."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="run_columns",
        parameters=[OpenApiParameter("q", description="A filter; all current runs without one.")],
        responses={200: ColumnList},
        tags=["runs"],
    )
    def get(self, request: Request) -> HttpResponse:
        """List columns of runs.

        Every configuration value and metric of the runs that match the filter, by name; at most
        2,000 of each.
        """
        found = columns.names_of(
            lists.filtered(request.query_params.get("q", ""), now=timezone.now())
        )
        return answer(ColumnList(results=found, next=None))


class RunsCsvView(ApiView):
    """The list of runs as CSV."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="runs_export",
        parameters=[OpenApiParameter("q"), OpenApiParameter("sort")],
        responses={(200, "text/csv"): OpenApiTypes.STR},
        tags=["runs"],
    )
    def get(self, request: Request) -> HttpResponse:
        """Export runs as CSV.

        Runs that match the filter.
        """
        lines = lists.runs_csv(
            text=request.query_params.get("q", ""),
            sort=request.query_params.get("sort", lists.NEWEST_FIRST),
            now=timezone.now(),
        )
        return HttpResponse(
            "".join(lines),
            content_type="text/csv; charset=utf-8",
            headers={"Content-Disposition": 'attachment; filename="runs.csv"'},
        )


class RunActivityView(ApiView):
    """Summaries of runs."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="run_activity",
        parameters=[
            OpenApiParameter(
                "ids", listed(200), required=True, description="Ids of runs, comma-separated."
            )
        ],
        responses={200: RunActivityList},
        tags=["runs"],
    )
    def get(self, request: Request) -> HttpResponse:
        """Get summaries of runs.

        Queue, fleet and returns; unknown values are omitted.
        """
        words = request.query_params.get("ids", "").split(",")
        if len(words) > SUMMARIES_AT_MOST or not all(
            word.isascii() and word.isdigit() and len(word) < 19 for word in words
        ):
            raise InvalidBody("ids", f"must be 1 to {SUMMARIES_AT_MOST} comma-separated ids")
        return answer(RunActivityList(results=run_activity([int(word) for word in words])))


class TagsView(ApiView):
    """The tags of a run."""

    permission_classes = [Operators]

    @extend_schema(
        operation_id="run_tags_replace", request=SetTags, responses={200: RunDetail}, tags=["runs"]
    )
    def put(self, request: Request, run: str) -> HttpResponse:
        """Replace a run's tags."""
        body = read(request, SetTags)
        tagged = set_tags(
            run_id=run_named(run).pk,
            tags=body.tags,
            actor=identity_of(request),
            reason=body.reason,
            now=timezone.now(),
        )
        return answer(run_detail(tagged))


class RunActionsView(ApiView):
    """Actions on many runs."""

    permission_classes = [Operators]

    @extend_schema(
        operation_id="runs_act", request=ActOnRuns, responses={200: ActedOnRuns}, tags=["runs"]
    )
    def post(self, request: Request) -> HttpResponse:
        """Apply an action to many runs.

        At most 100 runs per request; the result of each is returned.
        """
        body, now = read(request, ActOnRuns), timezone.now()
        if (body.ids is None) == (body.q is None):
            raise InvalidBody("ids", "exactly one of ids and q is required")
        if body.action in ("tag", "untag") and not body.tag:
            raise InvalidBody("tag", "required for this action")
        if body.action == "delete" and not body.reason.strip():
            raise InvalidBody("reason", "required for this action")
        found = (
            Run.objects.filter(pk__in=body.ids)
            if body.ids is not None
            else lists.filtered(body.q or "", now=now)
        )
        if body.ids is None and not (body.q or "").strip():
            matching = found[: lists.COUNTED_AT_MOST + 1].count()
            # A request that continues the action is not compared: its first part may have
            # archived runs.
            if body.all_runs is None or (not body.after_id and body.all_runs != matching):
                raise InvalidBody(
                    "all_runs",
                    f"an empty filter matches all {matching:,} runs; confirm with all_runs: "
                    f"{matching}, or name a filter in q",
                )
        found = found.filter(pk__gt=body.after_id)
        rows = list(found.order_by("pk")[:AT_ONCE])
        left = found.count() - len(rows)
        action = BulkAction(
            action=body.action, actor=identity_of(request), reason=body.reason, tag=body.tag
        )
        refused = act_on(rows, action, now=now)
        return answer(
            ActedOnRuns(
                results=[
                    ActedOn(id=run.pk, uid=run.uid, name=run.name, problem=problem)
                    for run, problem in zip(rows, refused, strict=True)
                ],
                next_after_id=rows[-1].pk if left else None,
                left=left,
            )
        )


class RunsView(CreateRunView):
    """All current runs; the base creates them."""

    @extend_schema(
        operation_id="runs_list",
        parameters=[
            OpenApiParameter("q", description="A filter, such as `state:running env:gsm8k`."),
            OpenApiParameter("status", enum=[str(status) for status in RunStatus]),
            OpenApiParameter(
                "sort",
                description=f"Sort key: {', '.join(lists.SORTS)}, or a column; prefix a minus "
                "for descending order. Runs without a value are last in both.",
            ),
            OpenApiParameter(
                "columns",
                listed(columns.AT_MOST),
                description="Comma-separated names of further columns: `config.` with the dotted "
                "path of a configuration value, or `metric.` with the name of a metric, of which "
                "the last value is returned.",
            ),
            *page_parameters(default=lists.ROWS_AT_MOST, most=lists.ROWS_AT_MOST),
        ],
        responses={200: RunList},
        tags=["runs"],
    )
    def get(self, request: Request) -> HttpResponse:
        """List runs.

        Runs that match the filter, newest first unless `sort` is given.
        """
        query, most = request.query_params, lists.ROWS_AT_MOST
        status = query.get("status", "")
        if status and status not in set(RunStatus):
            raise InvalidBody("status", f"must be one of {', '.join(RunStatus)}")
        sort = query.get("sort", lists.NEWEST_FIRST)
        found = lists.run_page(
            page_of(request, lists.position_kind(sort), default=most, most=most),
            text=f"{query.get('q', '')} state:{status}" if status else query.get("q", ""),
            sort=sort,
            named=[name for name in query.get("columns", "").split(",") if name],
            now=timezone.now(),
        )
        return answer(found)
