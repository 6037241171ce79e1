"""API views that lease batches to trainers and acknowledge them by id."""

from collections.abc import Collection
from contextlib import suppress
from functools import partial
from typing import Any, Final
from uuid import UUID

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request

from buffer.batches import schemas as messages
from buffer.batches.api.answers import StoredAnswer, TrackedAnswer
from buffer.batches.queries.queues import (
    batches,
    is_batch_available,
    item_sizes,
    queue_depth,
    uses_of,
)
from buffer.batches.rules.batch_bytes import group_form, groups_as, json_answer, msgpack_answer
from buffer.batches.rules.deliveries import Share, shard
from buffer.batches.schemas import DiscardBatch
from buffer.batches.services.lease_expiry import BatchCorrupt, contents_of, discard, release
from buffer.batches.services.leases import (
    Lease,
    TrainedBatch,
    held_beside,
    held_by,
    lease_batch,
    record_delivered,
)
from buffer.batches.services.settlement import acknowledge_batch
from buffer.items.api import AnyAccept
from buffer.items.models import Batch
from buffer.items.rules.states import BatchState, ItemKind, batch_id_of
from rolldeck.wire import BATCH_TYPE, BatchHead
from runs.access.api.identity import identity_of
from runs.access.api.permissions import Operators, Readers, scoped
from runs.lifecycle.models import Run
from runs.lifecycle.queries import readable_run, run_id_named, run_named, served_steps
from runs.lifecycle.rules import TERMINAL
from runs.lifecycle.schemas import ActionReason
from web.http.bodies import InvalidBody, answer, read, whole_number
from web.http.openapi import between, msgpack_of, problems
from web.http.paging import page_of, page_parameters
from web.http.views import ApiView
from web.http.waiting import WaitingView
from web.live.wakeups import WaitQueue
from web.rules.errors import Conflict

BATCH_ANSWERS: Final = {
    (200, BATCH_TYPE): msgpack_of("BatchAnswer"),
    (200, "application/json"): messages.JsonBatch,
}


class NoBatchSize(Conflict):
    """The run has no batch size, so its batches cannot be formed."""

    code = "no_batch_size"
    title = "The run has no batch size"


def _encoded(request: Request, lease: Lease, share: Share) -> tuple[list[bytes], str]:
    """Return a batch or its shard, and its media type.

    It is msgpack, or JSON for groups if the client accepts it.
    """
    batch = lease.batch
    places = range(batch.items)
    if share.world_size > 1:
        places = shard(item_sizes(batch), rank=share.rank, world_size=share.world_size)
    stored = contents_of(lease, positions=places, now=timezone.now())
    uses = uses_of(batch)[places.start : places.stop] if batch.sampler else []
    head = BatchHead(
        id=str(batch.pk),
        ordinal=batch.ordinal,
        fence=batch.fence,
        kind="groups" if batch.kind == ItemKind.GROUPS else "fragments",
        count=len(places),
        lease_seconds=lease.lease_seconds,
        epoch=batch.epoch,
        policy_step=lease.policy_step,
        item_ids=[item_id for item_id, _ in uses],
        importance_weights=[weight for _, weight in uses],
        rank=share.rank,
        world_size=share.world_size,
    )
    if batch.kind == ItemKind.FRAGMENTS:
        return msgpack_answer(head, stored), BATCH_TYPE
    accept = request.headers.get("Accept", "")
    if "application/json" in accept:
        return json_answer(head, stored), "application/json"
    return msgpack_answer(head, groups_as(group_form(accept), stored)), BATCH_TYPE


def _handed_over(request: Request, lease: Lease, share: Share) -> TrackedAnswer:
    """Return a leased batch, and record when its last byte was sent.

    For a sharded batch the last shard counts: training cannot start before it.
    """
    batch = lease.batch
    parts, content_type = _encoded(request, lease, share)
    return TrackedAnswer(
        parts,
        content_type=content_type,
        on_sent=partial(record_delivered, batch_id=batch.pk, fence=batch.fence),
        # An unacknowledged batch is delivered again: nothing to undo.
        on_cut=lambda: None,
    )


def _wait_limit(run: Run, seconds: float) -> float:
    """Return the wait in seconds; 0 for ended runs, which receive no more items."""
    return 0.0 if run.status in TERMINAL else seconds


def _no_batch_response(run: Run) -> HttpResponse:
    queued = queue_depth(run.pk).queued_sequences
    headers = {"Rolldeck-Queued": str(queued), "Rolldeck-Run-Status": run.status}
    return HttpResponse(status=204, headers=headers)


class LeasingView(WaitingView):
    """Base of views that lease batches and wait for them."""

    permission_classes = [scoped("trainer")]
    content_negotiation_class = AnyAccept

    def lease(
        self,
        request: Request,
        run: Run,
        *,
        count: int | None,
        seconds: float,
        share: Share = Share(),  # noqa: B008 frozen
        holding: Collection[UUID] = (),
        trained: TrainedBatch | None = None,
    ) -> HttpResponseBase:
        """Return a leased batch as soon as one is ready, or 204 after `seconds`.

        `trained` is acknowledged first, without waiting.
        """
        identity = identity_of(request)
        to_acknowledge = [] if trained is None else [trained]

        def read_once() -> HttpResponseBase | None:
            while to_acknowledge or is_batch_available(
                run.pk, identity=identity, count=count, holding=holding
            ):
                lease = lease_batch(
                    run_id=run.pk,
                    identity=identity,
                    count=count,
                    holding=holding,
                    reads_ahead=share.world_size == 1,
                    trained=to_acknowledge[0] if to_acknowledge else None,
                )
                to_acknowledge.clear()
                if lease is None:
                    return None
                # A corrupt batch is split up; the next one is formed without its corrupt items.
                with suppress(BatchCorrupt):
                    return _handed_over(request, lease, share)
            return None

        return self.wait(
            WaitQueue(run_id=run.pk, key=("batch", count), parts=frozenset({"queue"})),
            seconds=_wait_limit(run, seconds),
            poll=read_once,
            last=lambda: _no_batch_response(run),
        )


class NextBatchView(LeasingView):
    """Lease of a run's next batch, or of a rank's shard of it."""

    @extend_schema(
        operation_id="batches_next",
        request=messages.NextBatch,
        responses={**BATCH_ANSWERS, 204: None, **problems(409, 410)},
        tags=["batches"],
    )
    def post(self, request: Request, run: str) -> HttpResponseBase:
        """Lease the next batch.

        Waits up to `wait_seconds`, then answers 204. An unacknowledged batch is delivered
        again, unless `holding` names it.
        """
        body = read(request, messages.NextBatch)
        found = run_named(run)
        if found.batch_size is None:
            raise NoBatchSize(
                f"{found.name} has no batch size: register a trainer with `batch_size`, set it "
                f"with PATCH /api/v1/runs/{found.name}, or POST /atropos/{found.name}/register"
            )
        share = Share(rank=body.rank, world_size=body.world_size)
        if share.rank == 0:
            return self.lease(
                request,
                found,
                count=None,
                seconds=body.wait_seconds,
                share=share,
                holding=body.holding,
            )
        identity = identity_of(request)

        def read_once() -> HttpResponseBase | None:
            """Return the shard of the first batch of rank 0 that this rank has not received."""
            lease = held_beside(run_id=found.pk, identity=identity, received=body.holding)
            if lease is not None:
                with suppress(BatchCorrupt):
                    return _handed_over(request, lease, share)
            return None

        return self.wait(
            WaitQueue(
                run_id=found.pk,
                key=("shard", identity, share, tuple(body.holding)),
                parts=frozenset({"queue"}),
            ),
            seconds=_wait_limit(found, body.wait_seconds),
            poll=read_once,
            last=lambda: _no_batch_response(found),
        )


def acked(run: str, batch_id: str, fence: int) -> HttpResponse:
    """Acknowledge a batch and return the answer."""
    run_id = run_id_named(run)
    acknowledge_batch(run_id=run_id, batch_id=batch_id_of(batch_id), fence=fence)
    return answer(messages.Acked(served_steps=served_steps(run_id)))


class AckBatchView(ApiView):
    """Acknowledgement of a batch."""

    permission_classes = [scoped("trainer")]
    serves_machines = True

    @extend_schema(
        operation_id="batches_ack",
        request=messages.AckBatch,
        responses={200: messages.Acked, **problems(409)},
        tags=["batches"],
    )
    def post(self, request: Request, run: str, batch: str) -> HttpResponse:
        """Acknowledge a batch.

        Confirms that the batch was trained on. An older fence is refused.
        """
        body = read(request, messages.AckBatch)
        return acked(run, batch, body.fence)


class BatchView(ApiView):
    """One leased batch."""

    permission_classes = [scoped("trainer")]
    serves_machines = True
    content_negotiation_class = AnyAccept

    @extend_schema(
        operation_id="batches_get",
        parameters=[
            OpenApiParameter(
                "rank", between(0, 65_535), description="Of `world_size`; 0 if absent."
            ),
            OpenApiParameter("world_size", between(1, 65_536), description="Shards; 1 if absent."),
        ],
        responses={**BATCH_ANSWERS, **problems(409, 410)},
        tags=["batches"],
    )
    def get(self, request: Request, run: str, batch: UUID) -> HttpResponse:
        """Get a leased batch.

        The bytes of a batch, or of one rank's shard, for the trainer that holds its lease.
        """
        share = Share(
            rank=whole_number(request, "rank", default=0, at_least=0, at_most=65_535) or 0,
            world_size=whole_number(request, "world_size", default=1, at_least=1, at_most=65_536)
            or 1,
        )
        found = readable_run(run)
        identity = identity_of(request)
        lease = held_by(run_id=found.pk, batch_id=batch, identity=identity)
        parts, content_type = _encoded(request, lease, share)
        return StoredAnswer(parts, content_type=content_type)


class BatchesView(ApiView):
    """The batches of a run."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="batches_list",
        parameters=[
            OpenApiParameter("state", enum=[str(state) for state in BatchState]),
            *page_parameters(default=50, most=500),
        ],
        responses={200: messages.BatchList},
        tags=["batches"],
    )
    def get(self, request: Request, run: str) -> HttpResponse:
        """List batches.

        Metadata only, newest first.
        """
        page = page_of(request, int, default=50, most=500)
        state = request.query_params.get("state", "")
        if state and state not in set(BatchState):
            raise InvalidBody("state", f"must be one of {', '.join(BatchState)}")
        run_id = readable_run(run).pk
        found = batches(run_id=run_id, limit=page.limit + 1, before=page.after, state=state)
        rows, cursor = page.cut(found, lambda batch: batch.ordinal)
        return answer(messages.BatchList(results=[batch_row(batch) for batch in rows], next=cursor))


def batch_row(batch: Batch) -> messages.BatchRow:
    """Return a batch in its API form."""
    fields: dict[str, Any] = {
        name: getattr(batch, name) for name in messages.BatchRow.__struct_fields__
    }
    fields["id"] = str(batch.pk)
    fields["trainer"] = (batch.trainer.name or batch.trainer.identity) if batch.trainer else None
    return messages.BatchRow(**fields)


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
    serves_machines = True

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
