"""API of machine cordons."""

from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.views import APIView

from rollouts.control.queries.machines import machine_cordon
from rollouts.control.schemas.machines import CordonMachine, MachineCordonAnswer
from rollouts.control.services.machine_cordons import cordon_machine, uncordon_machine
from runs.access.api.identity import identity_of
from runs.access.api.permissions import Admins
from web.http import bodies
from web.http.openapi import REASON


class MachineCordonView(APIView):
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


def _now(node: str) -> HttpResponse:
    return bodies.answer(MachineCordonAnswer(node=node, cordon=machine_cordon(node)))
