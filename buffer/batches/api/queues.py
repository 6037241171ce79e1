"""API views of the queue, its mix and previews, the ledger, push rates and batch items."""

from dataclasses import asdict
from typing import Final
from uuid import UUID

import msgspec
from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from msgspec import structs
from rest_framework.request import Request

from buffer.batches import schemas as messages
from buffer.batches.api.batches import WrongKind, batch_row
from buffer.batches.queries import bias
from buffer.batches.queries.batches import ITEMS_AT_MOST, batch_and_items
from buffer.batches.queries.rates import arrivals_of
from buffer.batches.schemas import BatchItems, PushRateList, QueueAnswer
from buffer.batches.services.previews import mixing, preview, queue_snapshot
from buffer.items import queries
from buffer.items import schemas as ledger_answers
from buffer.items.rules.states import BatchNotFound
from runs.access.api.permissions import Readers
from runs.lifecycle.models import Run
from runs.lifecycle.queries import readable_run
from web.http.bodies import answer, whole_number
from web.http.openapi import between, problems
from web.http.paging import page_of, page_parameters
from web.http.views import ApiView
from web.snapshots import snapshot


class QueueView(ApiView):
    """The queue of a run."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="queue_get",
        responses={200: QueueAnswer},
        tags=["batches"],
    )
    def get(self, request: Request, run: str) -> HttpResponse:
        """Get the queue.

        Queued items, the ledger, the next batch, and why and since when producers are throttled.
        All figures are of one moment.
        """
        now = timezone.now()
        found = queue_snapshot(run, now=now)
        fields = asdict(found.state)
        depth = fields.pop("depth")
        known = {name: depth[name] for name in set(QueueAnswer.__struct_fields__) & depth.keys()}
        fields |= known
        fields["at"] = now
        fields["ledger"] = found.ledger
        fields["next_batch"] = found.next_batch
        fields["unit"] = "sequences" if found.run.takes_groups else "fragments"
        fields["paused"] = any(gate.closed for gate in found.state.gates)
        return answer(msgspec.convert(fields, QueueAnswer))


class PushRatesView(ApiView):
    """Push rates of environments."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="push_rates_list",
        responses={200: PushRateList},
        tags=["batches"],
    )
    def get(self, request: Request, run: str) -> HttpResponse:
        """Get push rates of environments.

        Pushes within the last minute, by environment; environments without pushes are omitted.
        """
        found = arrivals_of(readable_run(run), now=timezone.now())
        return answer(PushRateList(results=found, next=None))


class BatchItemsView(ApiView):
    """Items of a batch."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="batches_items",
        parameters=page_parameters(default=ITEMS_AT_MOST, most=ITEMS_AT_MOST),
        responses={200: BatchItems},
        tags=["batches"],
    )
    def get(self, request: Request, run: str, batch: UUID) -> HttpResponse:
        """List a batch's items.

        Metadata only, by position.
        """
        page = page_of(request, int, default=ITEMS_AT_MOST, most=ITEMS_AT_MOST)
        found = batch_and_items(readable_run(run), batch, after=page.after, limit=page.limit + 1)
        if found is None:
            raise BatchNotFound(f"batch {batch} does not exist")
        row, items = found
        results, cursor = page.cut(items, lambda item: item.position)
        return answer(BatchItems(batch=batch_row(row), results=results, next=cursor))


def _run_of_groups(name: str) -> Run:
    run = readable_run(name)
    if not run.takes_groups:
        raise WrongKind(f"{name} serves fragments; only trajectory groups are mixed by environment")
    return run


class MixingView(ApiView):
    """The mixing of a run."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="mixing_get",
        responses={200: messages.MixingAnswer, **problems(409)},
        tags=["batches"],
    )
    def get(self, request: Request, run: str) -> HttpResponse:
        """Get the environment mix.

        Target share, realized share and debt of each environment.
        """
        found = _run_of_groups(run)
        return answer(
            messages.MixingAnswer(
                batch_size=found.batch_size,
                dry_deadline_seconds=found.dry_deadline_seconds,
                environments=mixing(found.pk),
            )
        )


class PreviewView(ApiView):
    """Preview of a run's next batch."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="batches_preview",
        responses={200: messages.PreviewAnswer, **problems(409)},
        tags=["batches"],
    )
    def get(self, request: Request, run: str) -> HttpResponse:
        """Preview the next batch.

        Its composition, or the reason why none is ready. Leases nothing.
        """
        return answer(preview(_run_of_groups(run)))


DAY_SECONDS: Final = 86_400


class LedgerView(ApiView):
    """The ledger of a run."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="ledger_get",
        responses={200: ledger_answers.LedgerAnswer},
        tags=["batches"],
    )
    def get(self, request: Request, run: str) -> HttpResponse:
        """Get the ledger.

        Accepted items by their current state; the terms sum to `accepted`.
        """
        found = readable_run(run)
        with snapshot():
            whole = queries.ledger_part(found.pk)
            parts = queries.ledgers_by_environment(found.pk)
        audit = queries.last_audit(found)
        return answer(
            ledger_answers.LedgerAnswer(
                **structs.asdict(whole),
                environments=parts,
                audited_at=audit.audited_at if audit else None,
            )
        )


class BiasView(ApiView):
    """The selection bias of a run."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="bias_get",
        parameters=[
            OpenApiParameter(
                "window",
                between(1, 10_000 * DAY_SECONDS),
                description="Seconds; 86,400 by default.",
            )
        ],
        responses={200: messages.BiasAnswer},
        tags=["batches"],
    )
    def get(self, request: Request, run: str) -> HttpResponse:
        """Get the selection bias.

        Compares length, score and environment of recent items by their state.
        """
        window = whole_number(
            request, "window", default=DAY_SECONDS, at_least=1, at_most=10_000 * DAY_SECONDS
        )
        found = readable_run(run)
        seconds = window or DAY_SECONDS
        return answer(bias.bias_of(found, window_seconds=seconds, now=timezone.now()))
