"""API of fleets, pipelines and episodes."""

from typing import Final

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request

from rolldeck.wire import FleetControl, FleetReport
from rollouts.control.api.queries import wait_of
from rollouts.control.queries.fleets import control_of, fleet_state
from rollouts.control.schemas.fleets import FleetState
from rollouts.control.services.machine_samples import record_machine_samples
from rollouts.control.services.reports import accept_report
from runs.access.api.permissions import Readers, scoped
from runs.lifecycle.queries import readable_run, run_named
from web.http import bodies
from web.http.openapi import between, problems
from web.http.views import ApiView
from web.http.waiting import WaitingView
from web.live.wakeups import WaitQueue

LONGEST_WAIT_SECONDS: Final = 30


class FleetView(ApiView):
    """The fleet of a run."""

    permission_classes = [Readers]

    @extend_schema(operation_id="fleet_get", responses={200: FleetState}, tags=["fleet"])
    def get(self, request: Request, run: str) -> HttpResponse:
        """Get the fleet.

        Desired and last reported state.
        """
        found = readable_run(run)
        return bodies.answer(fleet_state(found.pk, now=timezone.now()))


class FleetControlView(WaitingView):
    """Desired state of a fleet."""

    permission_classes = [scoped("worker")]

    @extend_schema(
        operation_id="fleet_control",
        parameters=[
            OpenApiParameter("after", str, description="Fingerprint of the last response."),
            OpenApiParameter(
                "wait",
                between(0, 30, kind="number"),
                description="Seconds to wait for another fingerprint: 0 to 30.",
            ),
        ],
        responses={200: FleetControl},
        tags=["fleet"],
    )
    def get(self, request: Request, run: str) -> HttpResponseBase:
        """Get the fleet's control state.

        Waits until its fingerprint differs from `after`.
        """
        seconds = wait_of(request, default=0.0, at_most=LONGEST_WAIT_SECONDS)
        after = request.query_params.get("after", "")
        run_id = run_named(run).pk

        def read_once() -> HttpResponse | None:
            state = control_of(run_id)
            return None if state.fingerprint == after else bodies.answer(state)

        return self.wait(
            # Pushes change the free space of the buffer; their receipts report it.
            WaitQueue(
                run_id=run_id,
                key=("control", after),
                parts=frozenset({"run", "operator_requests"}),
            ),
            seconds=seconds,
            poll=read_once,
            last=lambda: bodies.answer(control_of(run_id)),
        )


class FleetReportView(ApiView):
    """Reports of a fleet."""

    permission_classes = [scoped("worker")]
    serves_machines = True

    @extend_schema(
        operation_id="fleet_report",
        request=FleetReport,
        responses={200: FleetControl, **problems(409)},
        tags=["fleet"],
    )
    def post(self, request: Request, run: str) -> HttpResponse:
        """Report the state of a fleet.

        A repeated report is stored once. Returns the control state.
        """
        report = bodies.read(request, FleetReport)
        found, now = run_named(run), timezone.now()
        accept_report(run_id=found.pk, report=report, now=now)
        # A separate transaction: runs that share a machine never wait for each other's reports.
        record_machine_samples(workers=report.workers, now=now)
        return bodies.answer(control_of(found.pk))
