"""API of run checks before launch."""

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request

from rollouts.environments.schemas.checks import CheckRun, RunCheck
from rollouts.environments.services.run_checks import check_run
from runs.access.api.identity import person_of
from runs.access.api.permissions import Operators
from web.http import bodies
from web.http.openapi import problems
from web.http.views import ApiView


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

        Environments are created once, in a separate process without secrets.
        """
        body = bodies.read(request, CheckRun)
        return bodies.answer(check_run(body, asked_by=person_of(request)))
