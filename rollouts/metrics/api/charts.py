"""API of the layouts and annotations of charts."""

from typing import Final

from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from rollouts.metrics.queries.charts import (
    annotation_row,
    annotations,
    layout_list,
    layout_row,
)
from rollouts.metrics.schemas import (
    AnnotationRow,
    Annotations,
    MetricLayoutRow,
    MetricLayouts,
    NewAnnotation,
    SetMetricLayout,
)
from rollouts.metrics.services.charts import (
    annotate,
    change_layout,
    delete_annotation,
    delete_layout,
    save_layout,
)
from runs.access.api.identity import caller_of, identity_of
from runs.access.api.permissions import LayoutEditors, Readers, scoped
from runs.access.rules import OPERATE, may_operate
from runs.lifecycle.queries import readable_run, readable_run_id, run_id_named, run_named
from web.http.bodies import InvalidBody, answer, read, reason_in
from web.http.openapi import REASON, problems
from web.http.views import ApiView

EVENTS: Final = ("run", "fleet")


def _writers() -> object:
    """Return the permission to write, held by operators and trainers of the run."""
    return scoped("trainer", or_rule=OPERATE)()


class AnnotationsView(ApiView):
    """Annotations and changes of a run's charts."""

    def get_permissions(self) -> list[object]:  # type: ignore[override]
        """Return the permissions: operators and trainers write, all readers of the run read."""
        return [_writers() if self.request.method == "POST" else Readers()]

    @extend_schema(
        operation_id="annotations_list",
        parameters=[
            OpenApiParameter(
                "events",
                str,
                enum=EVENTS,
                description="Changes to return: `run` (default) for state, settings and epoch;"
                " `fleet` also for launches, ended workers and published versions, the newest 100"
                " of each.",
            )
        ],
        responses={200: Annotations},
        tags=["metrics"],
    )
    def get(self, request: Request, run: str) -> HttpResponse:
        """List annotations.

        Annotations by users, and the changes of the run that charts show, oldest first.
        """
        events = request.query_params.get("events", EVENTS[0])
        if events not in EVENTS:
            raise InvalidBody("events", f"must be one of {', '.join(EVENTS)}")
        found = annotations(
            readable_run_id(run), asker=identity_of(request), with_fleet=events == "fleet"
        )
        return answer(found)

    @extend_schema(
        operation_id="annotations_create",
        request=NewAnnotation,
        responses={201: AnnotationRow},
        tags=["metrics"],
    )
    def post(self, request: Request, run: str) -> HttpResponse:
        """Create an annotation.

        A short text at a point in time, a step or an amount.
        """
        actor = identity_of(request)
        row = annotate(
            run_id=run_id_named(run),
            body=read(request, NewAnnotation),
            actor=actor,
            now=timezone.now(),
        )
        return answer(annotation_row(row, names={}, asker=actor), status=201)


class AnnotationView(ApiView):
    """One annotation of a run's charts."""

    def get_permissions(self) -> list[object]:  # type: ignore[override]
        """Return the permissions: all writers may delete their own; operators may delete any."""
        return [_writers()]

    @extend_schema(
        operation_id="annotations_delete",
        parameters=[REASON],
        responses={204: None},
        tags=["metrics"],
    )
    def delete(self, request: Request, run: str, annotation: int) -> HttpResponse:
        """Delete an annotation.

        Allowed to its author and to operators.
        """
        delete_annotation(
            run_id=run_id_named(run),
            annotation_id=annotation,
            actor=identity_of(request),
            may_operate=may_operate(caller_of(request), run=run),
            reason=reason_in(request),
            now=timezone.now(),
        )
        return HttpResponse(status=204)


class LayoutsView(ApiView):
    """Layouts of a run's metrics."""

    def get_permissions(self) -> list[BasePermission]:
        """Return the permissions: readers list layouts, users create them."""
        return [LayoutEditors() if self.request.method == "POST" else Readers()]

    @extend_schema(
        operation_id="metric_layouts_list", responses={200: MetricLayouts}, tags=["metrics"]
    )
    def get(self, request: Request, run: str) -> HttpResponse:
        """List metric layouts.

        Your own, the run's and those of its tags, by name.
        """
        operates = may_operate(caller_of(request), run=run)
        found = readable_run(run)
        return answer(layout_list(found, asker=identity_of(request), may_operate=operates))

    @extend_schema(
        operation_id="metric_layouts_create",
        request=SetMetricLayout,
        responses={201: MetricLayoutRow, **problems(409)},
        tags=["metrics"],
    )
    def post(self, request: Request, run: str) -> HttpResponse:
        """Create a metric layout.

        Shared layouts require the operator role.
        """
        row = save_layout(
            run=run_named(run),
            body=read(request, SetMetricLayout),
            actor=identity_of(request),
            may_operate=may_operate(caller_of(request), run=run),
            now=timezone.now(),
        )
        return answer(layout_row(row, names={}, may_change=True), status=201)


class LayoutView(ApiView):
    """One metric layout."""

    permission_classes = [LayoutEditors]

    @extend_schema(
        operation_id="metric_layouts_replace",
        request=SetMetricLayout,
        responses={200: MetricLayoutRow, **problems(409)},
        tags=["metrics"],
    )
    def put(self, request: Request, run: str, layout: int) -> HttpResponse:
        """Replace a metric layout.

        Allowed to its author and to operators.
        """
        row = change_layout(
            run=run_named(run),
            layout_id=layout,
            body=read(request, SetMetricLayout),
            actor=identity_of(request),
            may_operate=may_operate(caller_of(request), run=run),
            now=timezone.now(),
        )
        return answer(layout_row(row, names={}, may_change=True))

    @extend_schema(
        operation_id="metric_layouts_delete",
        parameters=[REASON],
        responses={204: None},
        tags=["metrics"],
    )
    def delete(self, request: Request, run: str, layout: int) -> HttpResponse:
        """Delete a metric layout.

        Allowed to its author and to operators.
        """
        delete_layout(
            run=run_named(run),
            layout_id=layout,
            actor=identity_of(request),
            may_operate=may_operate(caller_of(request), run=run),
            reason=reason_in(request),
            now=timezone.now(),
        )
        return HttpResponse(status=204)
