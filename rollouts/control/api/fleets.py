"""API of fleets, of weight syncs to their workers, and of machines."""

from typing import Final

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request

from rolldeck.wire import FleetControl, FleetReport
from rollouts.control.api.queries import wait_of
from rollouts.control.queries.fleets import SYNCS_AT_MOST, control_of, deliveries, fleet_state
from rollouts.control.queries.machines import HOURS_AT_MOST, machine_cordon, machine_history
from rollouts.control.schemas import (
    CordonMachine,
    FleetState,
    MachineCordonAnswer,
    MachineHistory,
    WeightSyncs,
)
from rollouts.control.services.machines import (
    cordon_machine,
    record_machine_samples,
    uncordon_machine,
)
from rollouts.control.services.reports import accept_report
from runs.access.api.identity import identity_of
from runs.access.api.permissions import Admins, Readers, scoped
from runs.lifecycle.queries import readable_run, readable_run_id, run_named
from web.http import bodies
from web.http.openapi import REASON, between, problems
from web.http.paging import page_of, page_parameters
from web.http.views import ApiView
from web.http.waiting import WaitingView
from web.live.wakeups import WaitQueue

LONGEST_WAIT_SECONDS: Final = 30
VERSIONS = 20


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
                run_id=run_id, key=("control", after), parts=frozenset({"run", "operator_requests"})
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


class WeightSyncsView(ApiView):
    """Weight syncs of a run."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="weights_syncs",
        parameters=[
            OpenApiParameter(
                "versions",
                between(1, 200),
                description="Number of newest versions: 1 to 200, default 20.",
            ),
            *page_parameters(default=SYNCS_AT_MOST, most=SYNCS_AT_MOST),
        ],
        responses={200: WeightSyncs},
        tags=["weights"],
    )
    def get(self, request: Request, run: str) -> HttpResponse:
        """List weight syncs.

        When each worker was notified of, had loaded and used the newest versions; newest
        version first, then by worker.
        """
        versions = bodies.whole_number(
            request, "versions", default=VERSIONS, at_least=1, at_most=200
        )
        page = page_of(request, tuple[int, int, int], default=SYNCS_AT_MOST, most=SYNCS_AT_MOST)
        found = deliveries(
            readable_run_id(run),
            versions=versions or VERSIONS,
            after=page.after,
            limit=page.limit + 1,
        )
        rows, cursor = page.cut(found, lambda row: (row.epoch, row.step, row.worker))
        return bodies.answer(WeightSyncs(results=rows, next=cursor))


class MachineCordonView(ApiView):
    """Cordon of a machine of the cluster."""

    # Requires an administrator: operators cordon workers of a run, but this affects all runs.
    permission_classes = [Admins]

    @extend_schema(
        operation_id="machine_cordon",
        request=CordonMachine,
        responses={200: MachineCordonAnswer},
        tags=["server"],
    )
    def put(self, request: Request, node: str) -> HttpResponse:
        """Cordon a machine.

        Its workers drain and move to other machines; no worker is placed on it. A repeated
        request changes nothing and keeps the first author.
        """
        body = bodies.read(request, CordonMachine)
        cordon_machine(
            node=node, reason=body.reason, actor=identity_of(request), now=timezone.now()
        )
        return _now(node)

    @extend_schema(
        operation_id="machine_uncordon",
        parameters=[REASON],
        responses={200: MachineCordonAnswer},
        tags=["server"],
    )
    def delete(self, request: Request, node: str) -> HttpResponse:
        """Uncordon a machine.

        Also accepts a machine that has left the cluster.
        """
        reason = str(request.query_params.get("reason", ""))[:2000]
        uncordon_machine(node=node, reason=reason, actor=identity_of(request), now=timezone.now())
        return _now(node)


class MachineHistoryView(ApiView):
    """Usage of a machine of the cluster over time."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="machine_usage",
        parameters=[
            OpenApiParameter(
                "hours",
                between(1, HOURS_AT_MOST),
                description="Length of the range up to now: 1 to 168; 24 by default.",
            )
        ],
        responses={200: MachineHistory},
        tags=["server"],
    )
    def get(self, request: Request, node: str) -> HttpResponse:
        """Get the usage of a machine over time.

        CPU, memory and GPUs over all processes of the machine. One of its workers measures it;
        while it has none, there are no samples. At most 360 points.
        """
        hours = bodies.whole_number(request, "hours", default=24, at_least=1, at_most=HOURS_AT_MOST)
        return bodies.answer(machine_history(node, hours=hours or 1, now=timezone.now()))


def _now(node: str) -> HttpResponse:
    return bodies.answer(MachineCordonAnswer(node=node, cordon=machine_cordon(node)))
