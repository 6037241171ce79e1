"""API of operations on single workers of a fleet."""

from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from rollouts.control.queries.fleets import fleet_state
from rollouts.control.queries.worker_stacks import worker_stacks
from rollouts.control.schemas.fleets import FleetState
from rollouts.control.schemas.workers import (
    RequestStacks,
    WorkerCordon,
    WorkerRestart,
    WorkerStacks,
    WorkerUncordon,
)
from rollouts.control.services.worker_cordons import cordon_worker, uncordon_worker
from rollouts.control.services.worker_restarts import restart_worker
from rollouts.control.services.worker_stacks import request_stacks
from runs.access.api.identity import identity_of
from runs.access.api.permissions import Operators, Readers
from runs.lifecycle.queries import readable_run, run_named
from web.http import bodies
from web.http.openapi import problems
from web.http.views import ApiView


class WorkerRestartView(ApiView):
    """Replacement of a worker."""

    permission_classes = [Operators]

    @extend_schema(
        operation_id="worker_restart",
        request=WorkerRestart,
        responses={202: FleetState, **problems(409)},
        tags=["fleet"],
    )
    def post(self, request: Request, run: str, worker: int) -> HttpResponse:
        """Restart a worker.

        The worker sends its finished work first.
        """
        body = bodies.read(request, WorkerRestart)
        run_id, now = run_named(run).pk, timezone.now()
        restart_worker(run_id=run_id, index=worker, body=body, actor=identity_of(request), now=now)
        return bodies.answer(fleet_state(run_id, now=now), status=202)


class WorkerCordonView(ApiView):
    """Cordon of a worker."""

    permission_classes = [Operators]

    @extend_schema(
        operation_id="worker_cordon",
        request=WorkerCordon,
        responses={202: FleetState, **problems(409)},
        tags=["fleet"],
    )
    def post(self, request: Request, run: str, worker: int) -> HttpResponse:
        """Cordon a worker.

        The worker finishes and sends its work, then exits; no replacement starts until it
        is uncordoned.
        """
        body = bodies.read(request, WorkerCordon)
        run_id, now = run_named(run).pk, timezone.now()
        cordon_worker(run_id=run_id, index=worker, body=body, actor=identity_of(request), now=now)
        return bodies.answer(fleet_state(run_id, now=now), status=202)


class WorkerUncordonView(ApiView):
    """End of a worker's cordon."""

    permission_classes = [Operators]

    @extend_schema(
        operation_id="worker_uncordon",
        request=WorkerUncordon,
        responses={202: FleetState},
        tags=["fleet"],
    )
    def post(self, request: Request, run: str, worker: int) -> HttpResponse:
        """Uncordon a worker.

        A replacement starts after the old worker has exited.
        """
        body = bodies.read(request, WorkerUncordon)
        run_id, now = run_named(run).pk, timezone.now()
        uncordon_worker(run_id=run_id, index=worker, body=body, actor=identity_of(request), now=now)
        return bodies.answer(fleet_state(run_id, now=now), status=202)


class WorkerStacksView(ApiView):
    """Thread stacks of a worker."""

    def get_permissions(self) -> list[BasePermission]:
        """Return the permissions to read and to request stacks."""
        return [Readers() if self.request.method == "GET" else Operators()]

    @extend_schema(
        operation_id="worker_stacks_get",
        responses={200: WorkerStacks},
        tags=["fleet"],
    )
    def get(self, request: Request, run: str, worker: int) -> HttpResponse:
        """Get a worker's stack traces.

        The newest request and its answer.
        """
        del request
        found = worker_stacks(readable_run(run).pk, worker, now=timezone.now())
        return bodies.answer(found)

    @extend_schema(
        operation_id="worker_stacks_request",
        request=RequestStacks,
        responses={202: WorkerStacks, **problems(409)},
        tags=["fleet"],
    )
    def post(self, request: Request, run: str, worker: int) -> HttpResponse:
        """Request a worker's stack traces.

        Read the answer with GET.
        """
        body = bodies.read(request, RequestStacks)
        run_id, now = run_named(run).pk, timezone.now()
        request_stacks(run_id=run_id, index=worker, body=body, actor=identity_of(request), now=now)
        return bodies.answer(worker_stacks(run_id, worker, now=now), status=202)
