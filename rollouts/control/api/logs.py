"""API of the logs of a fleet's actors and env processes."""

from datetime import datetime
from typing import Final
from uuid import UUID

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request

from rolldeck.operator_requests import LogLines
from rollouts.control.api.queries import wait_of
from rollouts.control.queries.fleets import fleet_log
from rollouts.control.schemas.fleets import FleetLog
from rollouts.control.services.logs import answer_log, request_log
from rollouts.fleet.process.logs import LINES_AT_MOST
from runs.access.api.permissions import Readers, scoped
from runs.lifecycle.queries import readable_run, run_named
from web.http import bodies
from web.http.openapi import between
from web.http.views import ApiView
from web.http.waiting import WaitingView
from web.live.wakeups import WaitQueue

LONGEST_WAIT_SECONDS: Final = 10
MOST_INDEX: Final = 2**31 - 1


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
        run_id, began = readable_run(run).pk, timezone.now()
        log_request = request_log(
            run_id=run_id, worker=worker, slot=slot, lines=lines or 1, now=began
        )
        return self._when_answered(
            run_id, log_request.pk, since=log_request.asked_at, seconds=seconds
        )

    def _when_answered(
        self, run_id: int, row_id: int, *, since: datetime, seconds: float
    ) -> HttpResponseBase:
        def read_once() -> HttpResponse | None:
            log = fleet_log(row_id, since=since, now=timezone.now())
            return None if log.state == "waiting" else bodies.answer(log)

        def last() -> HttpResponse:
            return bodies.answer(fleet_log(row_id, since=since, now=timezone.now()))

        return self.wait(
            WaitQueue(run_id=run_id, key=("log", row_id, since), parts=frozenset({"logs"})),
            seconds=seconds,
            poll=read_once,
            last=last,
        )


class FleetLogAnswerView(ApiView):
    """Log lines sent by a fleet on request."""

    permission_classes = [scoped("worker")]
    serves_machines = True

    @extend_schema(
        operation_id="fleet_log_answer",
        request=LogLines,
        responses={204: None},
        tags=["fleet"],
    )
    def post(self, request: Request, run: str, log_request: UUID) -> HttpResponse:
        """Upload the end of a log.

        Answers a pending log request.
        """
        answer = bodies.read(request, LogLines)
        answer_log(run_id=run_named(run).pk, request=log_request, answer=answer, now=timezone.now())
        return HttpResponse(status=204)
