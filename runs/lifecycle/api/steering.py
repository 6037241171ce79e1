"""API views that change an environment and reset an outside run."""

from typing import Any

import msgspec
from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request

from runs.access.api.identity import identity_of
from runs.access.api.permissions import Operators
from runs.lifecycle.queries import environment_row, run_detail, run_named
from runs.lifecycle.schemas import ChangeEnvironment, EnvironmentRow, ResetRun, RunDetail
from runs.lifecycle.services.environment_settings import change_environment
from runs.lifecycle.services.registry import reset_run
from web.http.bodies import answer, read
from web.http.views import ApiView


class EnvironmentView(ApiView):
    """One environment of a run."""

    permission_classes = [Operators]

    @extend_schema(
        operation_id="run_environments_update",
        request=ChangeEnvironment,
        responses={200: EnvironmentRow},
        tags=["runs"],
    )
    def patch(self, request: Request, run: str, env_id: int) -> HttpResponse:
        """Update a run's environment.

        Changes its weight, its minimum share, its connection state or its mute state.
        """
        changes: dict[str, Any] = msgspec.to_builtins(read(request, ChangeEnvironment))
        reason = changes.pop("reason")
        changed = change_environment(
            run_id=run_named(run).pk,
            env_id=env_id,
            changes=changes,
            actor=identity_of(request),
            reason=reason,
            now=timezone.now(),
        )
        return answer(environment_row(changed, now=timezone.now()))


class ResetView(ApiView):
    """Reset of an outside run."""

    permission_classes = [Operators]

    @extend_schema(
        operation_id="runs_reset",
        request=ResetRun,
        responses={200: RunDetail},
        tags=["runs"],
    )
    def post(self, request: Request, run: str) -> HttpResponse:
        """Reset an outside run.

        Archives the run and creates one of the same name; no row is deleted.
        """
        body = read(request, ResetRun)
        fresh = reset_run(
            run_id=run_named(run).pk,
            actor=identity_of(request),
            reason=body.reason,
            now=timezone.now(),
        )
        return answer(run_detail(fresh))
