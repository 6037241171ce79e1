"""API of the environment registry: lists, probes, denials and run checks."""

from typing import Final

from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request

from rollouts.environments import queries as registry
from rollouts.environments.schemas import (
    CheckRun,
    EnvironmentApproval,
    KnownEnvironmentDetail,
    KnownEnvironments,
    ProbedEnvironment,
    ProbeEnvironment,
    RunCheck,
)
from rollouts.environments.services.check_results import approve_environment, probe_environment
from rollouts.environments.services.run_checks import check_run
from runs.access.api.identity import identity_of, person_of
from runs.access.api.permissions import Admins, Operators, Readers
from web.http import bodies
from web.http.bodies import InvalidBody, answer, read
from web.http.openapi import problems
from web.http.paging import page_of, page_parameters
from web.http.views import ApiView

LONGEST_NAME: Final = 220
ROWS_AT_MOST: Final = 100


class KnownEnvironmentsView(ApiView):
    """Environments of all runs."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="environments_list",
        parameters=[
            OpenApiParameter("q", description="Part of the name."),
            OpenApiParameter("kind", enum=list(registry.KINDS)),
            *page_parameters(default=50, most=ROWS_AT_MOST),
        ],
        responses={200: KnownEnvironments},
        tags=["environments"],
    )
    def get(self, request: Request) -> HttpResponse:
        """List environments.

        By name: environments used by runs and environments available to new runs.
        """
        return answer(
            registry.known_environments(
                registry.EnvironmentFilter(
                    part=_text(request, "q"), kind=_kind(request, needed=False)
                ),
                page_of(request, tuple[str, str], default=50, most=ROWS_AT_MOST),
                now=timezone.now(),
            )
        )


class KnownEnvironmentView(ApiView):
    """One environment of all runs."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="environments_get",
        parameters=[
            OpenApiParameter("kind", required=True, enum=list(registry.KINDS)),
            OpenApiParameter("name", required=True, description="Exact name."),
        ],
        responses={200: KnownEnvironmentDetail, **problems(404)},
        tags=["environments"],
    )
    def get(self, request: Request) -> HttpResponse:
        """Get an environment.

        With the newest runs that use it and its launch settings.
        """
        name = _text(request, "name")
        if not name:
            raise InvalidBody("name", "is required")
        kind = _kind(request, needed=True)
        return answer(registry.environment_detail(kind=kind, name=name, now=timezone.now()))


class EnvironmentProbeView(ApiView):
    """Probe of an environment: one episode of random actions."""

    permission_classes = [Operators]

    @extend_schema(
        operation_id="environments_probe",
        request=ProbeEnvironment,
        responses={200: ProbedEnvironment, **problems(404, 429, 503)},
        tags=["environments"],
    )
    def post(self, request: Request) -> HttpResponse:
        """Run one episode in an environment.

        Creates the environment and plays one episode of random actions. Stores nothing.

        It runs in a separate process without secrets, on the machine of the cluster's head, for at
        most 20 seconds.
        """
        return answer(probe_environment(read(request, ProbeEnvironment)))


class EnvironmentApprovalView(ApiView):
    """Availability of an environment to new runs."""

    permission_classes = [Admins]

    @extend_schema(
        operation_id="environments_approve",
        request=EnvironmentApproval,
        responses={204: None, **problems(404)},
        tags=["environments"],
    )
    def put(self, request: Request) -> HttpResponse:
        """Allow or deny an environment.

        A denied spec is refused for new runs with the given reason.
        """
        approval = read(request, EnvironmentApproval)
        approve_environment(approval=approval, actor=identity_of(request), now=timezone.now())
        return HttpResponse(status=204)


def _text(request: Request, name: str) -> str:
    text = request.query_params.get(name, "")
    if "\x00" in text or len(text) > LONGEST_NAME:
        raise InvalidBody(name, f"must not contain NUL or exceed {LONGEST_NAME} characters")
    return text


def _kind(request: Request, *, needed: bool) -> str:
    kind = request.query_params.get("kind", "")
    if kind not in registry.KINDS and (needed or kind):
        raise InvalidBody("kind", f"must be one of {', '.join(registry.KINDS)}")
    return kind


class RunChecksView(ApiView):
    """Dry runs."""

    permission_classes = [Operators]

    @extend_schema(
        operation_id="runs_check",
        request=CheckRun,
        responses={200: RunCheck, **problems(429)},
        tags=["runs"],
    )
    def post(self, request: Request) -> HttpResponse:
        """Check a run configuration.

        Validates fields, environment, batch size, memory and disk before a launch.

        Environments are created once, on the machine of the cluster's head, in a separate process
        without secrets.
        """
        body = bodies.read(request, CheckRun)
        return bodies.answer(check_run(body, asked_by=person_of(request)))
