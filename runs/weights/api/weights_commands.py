"""API views that pin, unpin and reload weights."""

from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request

from runs.access.api.identity import identity_of
from runs.access.api.permissions import Operators, readable_by
from runs.lifecycle.queries import readable_run, run_id_named
from runs.weights.queries import COMMANDS_AT_MOST, weights_commands
from runs.weights.schemas import WeightsCommands, WeightsPin, WeightsRequest
from runs.weights.services import pin_weights, sync_weights, unpin_weights
from web.http.bodies import answer, read
from web.http.openapi import problems
from web.http.paging import page_of, page_parameters
from web.http.views import ApiView


def _answer(request: Request, run: str) -> HttpResponse:
    path = f"/api/v1/runs/{run}/weights/commands"
    page = page_of(request, int, default=COMMANDS_AT_MOST, most=COMMANDS_AT_MOST, path=path)
    return answer(weights_commands(readable_run(run), page))


class WeightsCommandsView(ApiView):
    """The weights commands of a run."""

    permission_classes = [readable_by("trainer", "worker")]

    @extend_schema(
        operation_id="weights_commands",
        parameters=page_parameters(default=COMMANDS_AT_MOST, most=COMMANDS_AT_MOST),
        responses={200: WeightsCommands},
        tags=["weights"],
    )
    def get(self, request: Request, run: str) -> HttpResponse:
        """List weight orders.

        The policy version in use, and its pins and reloads, newest first.
        """
        return _answer(request, run)


class WeightsPinView(ApiView):
    """A pin of a policy version."""

    permission_classes = [Operators]

    @extend_schema(
        operation_id="weights_pin",
        request=WeightsPin,
        responses={200: WeightsCommands, **problems(409)},
        tags=["weights"],
    )
    def post(self, request: Request, run: str) -> HttpResponse:
        """Pin a policy version.

        Workers keep the version although newer ones are published.
        """
        body = read(request, WeightsPin)
        pin_weights(
            run_id=run_id_named(run),
            step=body.step,
            actor=identity_of(request),
            reason=body.reason,
            now=timezone.now(),
        )
        return _answer(request, run)


class WeightsUnpinView(ApiView):
    """Removal of a pin."""

    permission_classes = [Operators]

    @extend_schema(
        operation_id="weights_unpin",
        request=WeightsRequest,
        responses={200: WeightsCommands, **problems(409)},
        tags=["weights"],
    )
    def post(self, request: Request, run: str) -> HttpResponse:
        """Unpin the policy version.

        Workers follow the newest version again.
        """
        unpin_weights(
            run_id=run_id_named(run),
            actor=identity_of(request),
            reason=read(request, WeightsRequest).reason,
            now=timezone.now(),
        )
        return _answer(request, run)


class WeightsSyncView(ApiView):
    """Reload of the weights."""

    permission_classes = [Operators]

    @extend_schema(
        operation_id="weights_sync",
        request=WeightsRequest,
        responses={200: WeightsCommands, **problems(409)},
        tags=["weights"],
    )
    def post(self, request: Request, run: str) -> HttpResponse:
        """Reload the weights.

        The fleet downloads the current version again and every worker reloads it.
        """
        sync_weights(
            run_id=run_id_named(run),
            actor=identity_of(request),
            reason=read(request, WeightsRequest).reason,
            now=timezone.now(),
        )
        return _answer(request, run)
