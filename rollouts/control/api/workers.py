"""API of the workers of a fleet: operations, incarnations and logs."""

from typing import Final
from uuid import UUID

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from rolldeck.operator_requests import LogLines
from rollouts.control.api.queries import wait_of
from rollouts.control.queries.fleets import attempts, fleet_log, fleet_state, worker_stacks
from rollouts.control.schemas import (
    Attempts,
    FleetLog,
    FleetState,
    WorkerAction,
    WorkerStacks,
    WorkerUncordon,
)
from rollouts.control.services.worker_requests import (
    OperatorRequest,
    answer_log,
    cordon_worker,
    request_log,
    request_stacks,
    restart_worker,
    uncordon_worker,
)
from rollouts.fleet.process.logs import LINES_AT_MOST
from runs.access.api.identity import identity_of
from runs.access.api.permissions import Operators, Readers, scoped
from runs.lifecycle.queries import readable_run, run_named
from web.http import bodies
from web.http.openapi import between, problems
from web.http.paging import page_of, page_parameters
from web.http.views import ApiView
from web.http.waiting import WaitingView
from web.live.wakeups import WaitQueue

MOST_INDEX: Final = 2**31 - 1
ROWS_AT_MOST: Final = 1000
LONGEST_WAIT_SECONDS: Final = 10


def _asked(
    request: Request,
    run: str,
    worker: int,
    *,
    body_type: type[WorkerAction | WorkerUncordon] = WorkerAction,
) -> OperatorRequest:
    """Return the operator's request to a worker.

    Raises:
        InvalidBody: If the body is invalid.
        RunNotFound: If there is no such run.
    """
    body = bodies.read(request, body_type)
    return OperatorRequest(
        run_id=run_named(run).pk,
        worker=worker,
        incarnation=body.incarnation if isinstance(body, WorkerAction) else "",
        reason=body.reason,
        actor=identity_of(request),
        now=timezone.now(),
    )


def _fleet_after(asked: OperatorRequest) -> HttpResponse:
    return bodies.answer(fleet_state(asked.run_id, now=asked.now), status=202)


class WorkerRestartView(ApiView):
    """Replacement of a worker."""

    permission_classes = [Operators]

    @extend_schema(
        operation_id="worker_restart",
        request=WorkerAction,
        responses={202: FleetState, **problems(409)},
        tags=["fleet"],
    )
    def post(self, request: Request, run: str, worker: int) -> HttpResponse:
        """Restart a worker.

        The worker sends its finished work first.
        """
        asked = _asked(request, run, worker)
        restart_worker(asked)
        return _fleet_after(asked)


class WorkerCordonView(ApiView):
    """Cordon of a worker."""

    permission_classes = [Operators]

    @extend_schema(
        operation_id="worker_cordon",
        request=WorkerAction,
        responses={202: FleetState, **problems(409)},
        tags=["fleet"],
    )
    def post(self, request: Request, run: str, worker: int) -> HttpResponse:
        """Cordon a worker.

        The worker finishes and sends its work, then exits; no replacement starts until it
        is uncordoned.
        """
        asked = _asked(request, run, worker)
        cordon_worker(asked)
        return _fleet_after(asked)


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
        asked = _asked(request, run, worker, body_type=WorkerUncordon)
        uncordon_worker(asked)
        return _fleet_after(asked)


class WorkerStacksView(ApiView):
    """Thread stacks of a worker."""

    def get_permissions(self) -> list[BasePermission]:
        """Return the permissions to read and to request stacks."""
        return [Readers() if self.request.method == "GET" else Operators()]

    @extend_schema(operation_id="worker_stacks_get", responses={200: WorkerStacks}, tags=["fleet"])
    def get(self, request: Request, run: str, worker: int) -> HttpResponse:
        """Get a worker's stack traces.

        The newest request and its answer.
        """
        del request
        found = worker_stacks(readable_run(run).pk, worker, now=timezone.now())
        return bodies.answer(found)

    @extend_schema(
        operation_id="worker_stacks_request",
        request=WorkerAction,
        responses={202: WorkerStacks, **problems(409)},
        tags=["fleet"],
    )
    def post(self, request: Request, run: str, worker: int) -> HttpResponse:
        """Request a worker's stack traces.

        Read the answer with GET.
        """
        asked = _asked(request, run, worker)
        request_stacks(asked)
        return bodies.answer(worker_stacks(asked.run_id, worker, now=asked.now), status=202)


class AttemptsView(ApiView):
    """Incarnations of a fleet's workers."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="worker_attempts_list",
        parameters=[
            OpenApiParameter(
                "worker", between(0, MOST_INDEX), description="Index of one worker; all if absent."
            ),
            *page_parameters(default=100, most=ROWS_AT_MOST),
        ],
        responses={200: Attempts},
        tags=["fleet"],
    )
    def get(self, request: Request, run: str) -> HttpResponse:
        """List worker incarnations.

        Newest first, with machine, lifetime and exit reason.
        """
        worker = bodies.whole_number(
            request, "worker", default=None, at_least=0, at_most=MOST_INDEX
        )
        page = page_of(request, int, default=100, most=ROWS_AT_MOST)
        found = attempts(
            readable_run(run).pk, worker=worker, before=page.after, limit=page.limit + 1
        )
        rows, cursor = page.cut(found, lambda row: row.id)
        return bodies.answer(Attempts(results=rows, next=cursor))


class FleetLogsView(WaitingView):
    """The end of a log of the fleet."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="fleet_logs",
        parameters=[
            OpenApiParameter(
                "worker",
                between(0, MOST_INDEX),
                description="Worker index. Default: the manager's log.",
            ),
            OpenApiParameter(
                "slot",
                between(0, MOST_INDEX),
                description="Slot, for its env process's log. Default: the worker's log.",
            ),
            OpenApiParameter(
                "lines",
                between(1, LINES_AT_MOST),
                description=f"Maximum number of lines: 1 to {LINES_AT_MOST}, default 200.",
            ),
            OpenApiParameter(
                "wait",
                between(0, 10, kind="number"),
                description="Seconds to wait for the fleet: 0 to 10, default 5.",
            ),
        ],
        responses={200: FleetLog},
        tags=["fleet"],
    )
    def get(self, request: Request, run: str) -> HttpResponseBase:
        """Get the end of a log.

        The fleet reads the log on request. If the time runs out, the last lines read before
        are returned and marked as such.
        """
        worker = bodies.whole_number(
            request, "worker", default=None, at_least=0, at_most=MOST_INDEX
        )
        slot = bodies.whole_number(request, "slot", default=None, at_least=0, at_most=MOST_INDEX)
        lines = bodies.whole_number(
            request, "lines", default=200, at_least=1, at_most=LINES_AT_MOST
        )
        seconds = wait_of(request, default=5.0, at_most=LONGEST_WAIT_SECONDS)
        if slot is not None and worker is None:
            raise bodies.InvalidBody("worker", "required if `slot` is set")
        run_id = readable_run(run).pk
        row = request_log(
            run_id=run_id, worker=worker, slot=slot, lines=lines or 1, now=timezone.now()
        )
        row_id, since = row.pk, row.asked_at

        def read_once() -> HttpResponse | None:
            log = fleet_log(row_id, since=since, now=timezone.now())
            return None if log.state == "waiting" else bodies.answer(log)

        return self.wait(
            WaitQueue(run_id=run_id, key=("log", row_id, since), parts=frozenset({"logs"})),
            seconds=seconds,
            poll=read_once,
            last=lambda: bodies.answer(fleet_log(row_id, since=since, now=timezone.now())),
        )


class FleetLogAnswerView(ApiView):
    """Log lines sent by a fleet on request."""

    permission_classes = [scoped("worker")]
    serves_machines = True

    @extend_schema(
        operation_id="fleet_log_answer", request=LogLines, responses={204: None}, tags=["fleet"]
    )
    def post(self, request: Request, run: str, log_request: UUID) -> HttpResponse:
        """Upload the end of a log.

        Answers a pending log request.
        """
        answer = bodies.read(request, LogLines)
        answer_log(run_id=run_named(run).pk, request=log_request, answer=answer, now=timezone.now())
        return HttpResponse(status=204)
