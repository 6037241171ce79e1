"""API views that release or discard quarantined and expired batches."""

from typing import Any, Final
from uuid import UUID

from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request

from buffer.batches.api.batches import batch_row
from buffer.batches.schemas import batches as messages
from buffer.batches.schemas.batches import DiscardBatch
from buffer.batches.services.lease_expiry import discard, release
from runs.access.api.identity import identity_of
from runs.access.api.permissions import Operators
from runs.lifecycle.queries.runs import run_named
from runs.lifecycle.schemas.runs import ActionReason
from web.http.bodies import answer, read
from web.http.openapi import problems
from web.http.views import ApiView

ANSWERS: Final[dict[Any, Any]] = {200: messages.BatchRow, **problems(409)}


class ReleaseView(ApiView):
    """Release of a quarantined or expired batch."""

    permission_classes = [Operators]

    @extend_schema(
        operation_id="batches_release", request=ActionReason, responses=ANSWERS, tags=["batches"]
    )
    def post(self, request: Request, run: str, batch: UUID) -> HttpResponse:
        """Release a batch.

        Puts the items of a quarantined or expired batch back at the head of the queue.
        """
        body = read(request, ActionReason)
        released = release(
            run_id=run_named(run).pk,
            batch_id=batch,
            actor=identity_of(request),
            reason=body.reason,
            now=timezone.now(),
        )
        return answer(batch_row(released))


class DiscardView(ApiView):
    """Discard of a quarantined or expired batch."""

    permission_classes = [Operators]

    @extend_schema(
        operation_id="batches_discard", request=DiscardBatch, responses=ANSWERS, tags=["batches"]
    )
    def post(self, request: Request, run: str, batch: UUID) -> HttpResponse:
        """Discard a batch.

        Drops the items of a quarantined batch as `poison`, of an expired one as `discarded`; also
        of one that a trainer holds, if `fence` is that of its lease.
        """
        body = read(request, DiscardBatch)
        discarded = discard(
            run_id=run_named(run).pk,
            batch_id=batch,
            actor=identity_of(request),
            fence=body.fence,
            reason=body.reason,
            now=timezone.now(),
        )
        return answer(batch_row(discarded))
