"""API of saved views."""

from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from runs.access.api.identity import caller_of, identity_of
from runs.access.api.permissions import Readers, ViewEditors
from runs.access.rules import may_operate
from runs.lifecycle.queries import readable_run
from runs.views.queries import view_list, view_row
from runs.views.schemas import SetView, ViewRow, Views
from runs.views.services import change_view, delete_view, save_view
from web.http.bodies import answer, read, reason_in
from web.http.openapi import REASON, problems
from web.http.views import ApiView


class ViewsView(ApiView):
    """Saved views."""

    def get_permissions(self) -> list[BasePermission]:
        """Return the permissions: readers list views, users create them."""
        return [ViewEditors() if self.request.method == "POST" else Readers()]

    @extend_schema(
        operation_id="views_list",
        parameters=[OpenApiParameter("run", str, description="Name of the run to view; else any.")],
        responses={200: Views, **problems(404)},
        tags=["metrics"],
    )
    def get(self, request: Request) -> HttpResponse:
        """List saved views.

        Your own, and shared ones of the run, of its tags and of all runs, by name.
        """
        name = request.query_params.get("run", "")
        run = readable_run(name) if name else None
        operates = may_operate(caller_of(request))
        return answer(view_list(run, asker=identity_of(request), may_operate=operates))

    @extend_schema(
        operation_id="views_create",
        request=SetView,
        responses={201: ViewRow, **problems(404, 409)},
        tags=["metrics"],
    )
    def post(self, request: Request) -> HttpResponse:
        """Save a view.

        Shared views require the operator role.
        """
        row = save_view(
            body=read(request, SetView),
            actor=identity_of(request),
            may_operate=may_operate(caller_of(request)),
            now=timezone.now(),
        )
        return answer(view_row(row, names={}, may_change=True), status=201)


class ViewView(ApiView):
    """One saved view."""

    permission_classes = [ViewEditors]

    @extend_schema(
        operation_id="views_replace",
        request=SetView,
        responses={200: ViewRow, **problems(409)},
        tags=["metrics"],
    )
    def put(self, request: Request, view: int) -> HttpResponse:
        """Replace a saved view.

        Allowed to its author and to operators.
        """
        row = change_view(
            view_id=view,
            body=read(request, SetView),
            actor=identity_of(request),
            may_operate=may_operate(caller_of(request)),
            now=timezone.now(),
        )
        return answer(view_row(row, names={}, may_change=True))

    @extend_schema(
        operation_id="views_delete", parameters=[REASON], responses={204: None}, tags=["metrics"]
    )
    def delete(self, request: Request, view: int) -> HttpResponse:
        """Delete a saved view.

        Allowed to its author and to operators.
        """
        delete_view(
            view_id=view,
            actor=identity_of(request),
            may_operate=may_operate(caller_of(request)),
            reason=reason_in(request),
            now=timezone.now(),
        )
        return HttpResponse(status=204)
