"""API views that lease fragments to trainers and acknowledge them."""

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request

from buffer.batches import schemas as messages
from buffer.batches.api.batches import BATCH_ANSWERS, LeasingView, acked
from buffer.batches.services.leases import TrainedBatch
from buffer.items.rules.batches import batch_id_of
from runs.access.api.permissions import scoped
from runs.lifecycle.queries.runs import run_named
from web.http.bodies import read
from web.http.openapi import problems
from web.http.views import ApiView
from web.rules.errors import Conflict


class WrongKind(Conflict):
    """The run serves the other kind of item."""

    code = "wrong_kind"
    title = "Wrong kind of run"


class FetchFragmentsView(LeasingView):
    """Lease of a requested number of fragments."""

    @extend_schema(
        operation_id="fragments_fetch",
        request=messages.FetchFragments,
        responses={**BATCH_ANSWERS, 204: None, **problems(409, 410)},
        tags=["fragments"],
    )
    def post(self, request: Request, run: str) -> HttpResponseBase:
        """Lease fragments.

        Waits up to `wait_seconds`, then answers 204. Unacknowledged fragments are delivered
        again. `ack` acknowledges the previous fragments in the same request.
        """
        body = read(request, messages.FetchFragments)
        found = run_named(run)
        if found.takes_groups:
            raise WrongKind(f"{run} serves trajectory groups, not fragments")
        ack = body.ack and TrainedBatch(batch_id=batch_id_of(body.ack.batch), fence=body.ack.fence)
        return self.lease(
            request, found, count=body.count, seconds=body.wait_seconds, trained=ack or None
        )


class AckFragmentsView(ApiView):
    """Acknowledgement of fetched fragments."""

    permission_classes = [scoped("trainer")]

    @extend_schema(
        operation_id="fragments_ack",
        request=messages.AckFragments,
        responses={200: messages.Acked, **problems(409)},
        tags=["fragments"],
    )
    def post(self, request: Request, run: str) -> HttpResponse:
        """Acknowledge fetched fragments.

        Confirms that they were trained on.
        """
        body = read(request, messages.AckFragments)
        return acked(run, body.batch, body.fence)
