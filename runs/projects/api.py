"""API views of projects."""

from typing import Any

import msgspec
from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request

from runs.access.api.identity import identity_of
from runs.access.api.permissions import OperatorsToChange
from runs.projects.queries import project_page, project_row
from runs.projects.schemas import ChangeProject, CreateProject, ProjectList, ProjectRow
from runs.projects.services import change_project, create_project, delete_project
from web.http.bodies import InvalidBody, answer, read, reason_in
from web.http.openapi import REASON, problems
from web.http.paging import page_of, page_parameters
from web.http.views import ApiView

PROJECTS_PER_PAGE = 50
PROJECTS_AT_MOST = 200


class ProjectsView(ApiView):
    """The projects."""

    permission_classes = [OperatorsToChange]

    @extend_schema(
        operation_id="projects_list",
        parameters=[
            OpenApiParameter(
                "archived", bool, description="List the archived projects instead of the current."
            ),
            *page_parameters(default=PROJECTS_PER_PAGE, most=PROJECTS_AT_MOST),
        ],
        responses={200: ProjectList},
        tags=["runs"],
    )
    def get(self, request: Request) -> HttpResponse:
        """List projects.

        By name.
        """
        archived = request.query_params.get("archived", "false")
        if archived not in ("true", "false"):
            raise InvalidBody("archived", "must be true or false")
        page = page_of(request, str, default=PROJECTS_PER_PAGE, most=PROJECTS_AT_MOST)
        return answer(project_page(page, is_archived=archived == "true"))

    @extend_schema(
        operation_id="projects_create",
        request=CreateProject,
        responses={201: ProjectRow, **problems(409)},
        tags=["runs"],
    )
    def post(self, request: Request) -> HttpResponse:
        """Create a project.

        Invalid defaults are refused.
        """
        body: dict[str, Any] = msgspec.to_builtins(read(request, CreateProject))
        made = create_project(**body, actor=identity_of(request), now=timezone.now())
        return answer(project_row(made.uid), status=201)


class ProjectView(ApiView):
    """One project."""

    permission_classes = [OperatorsToChange]

    @extend_schema(operation_id="projects_get", responses={200: ProjectRow}, tags=["runs"])
    def get(self, request: Request, project: str) -> HttpResponse:
        """Get a project."""
        return answer(project_row(project))

    @extend_schema(
        operation_id="projects_update",
        request=ChangeProject,
        responses={200: ProjectRow, **problems(409)},
        tags=["runs"],
    )
    def patch(self, request: Request, project: str) -> HttpResponse:
        """Update a project.

        Runs stay in it when it is renamed or archived, and keep their configuration.
        """
        changes: dict[str, Any] = msgspec.to_builtins(read(request, ChangeProject))
        changed = change_project(
            address=project,
            reason=changes.pop("reason"),
            changes=changes,
            actor=identity_of(request),
            now=timezone.now(),
        )
        return answer(project_row(changed.uid))

    @extend_schema(
        operation_id="projects_delete",
        parameters=[REASON],
        responses={204: None, **problems(409)},
        tags=["runs"],
    )
    def delete(self, request: Request, project: str) -> HttpResponse:
        """Delete a project.

        Refused while it has runs that are not archived. Its archived runs stay, without a project.
        """
        delete_project(
            address=project,
            actor=identity_of(request),
            reason=reason_in(request),
            now=timezone.now(),
        )
        return HttpResponse(status=204)
