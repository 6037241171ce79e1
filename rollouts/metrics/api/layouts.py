"""API of metric layouts."""

from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from rollouts.metrics.queries.layouts import layout_list, layout_row
from rollouts.metrics.schemas.layouts import MetricLayoutRow, MetricLayouts, SetMetricLayout
from rollouts.metrics.services.layouts import change_layout, delete_layout, save_layout
from runs.access.api.identity import caller_of, identity_of
from runs.access.api.permissions import LayoutEditors, Readers
from runs.access.rules.rights import may_operate
from runs.lifecycle.queries.runs import readable_run, run_named
from web.http.bodies import answer, read, reason_in
from web.http.openapi import REASON, problems
from web.http.views import ApiView


class LayoutsView(ApiView):
    """Layouts of a run's metrics."""

    def get_permissions(self) -> list[BasePermission]:
        """Return the permissions: readers list layouts, users create them."""
        return [LayoutEditors() if self.request.method == "POST" else Readers()]

    @extend_schema(
        operation_id="metric_layouts_list",
        responses={200: MetricLayouts},
        tags=["metrics"],
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
