"""API of machines: cordons, and usage over time."""

from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request

from rollouts.control.queries.machine_samples import HOURS_AT_MOST, machine_history
from rollouts.control.queries.machines import machine_cordon
from rollouts.control.schemas.machines import (
    CordonMachine,
    MachineCordonAnswer,
    MachineHistory,
)
from rollouts.control.services.machine_cordons import cordon_machine, uncordon_machine
from runs.access.api.identity import identity_of
from runs.access.api.permissions import Admins, Readers
from web.http import bodies
from web.http.openapi import REASON, between
from web.http.views import ApiView


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
