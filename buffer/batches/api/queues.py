"""API views of the queue, of push rates and of batch items."""

from dataclasses import asdict
from uuid import UUID

import msgspec
from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request

from buffer.batches.api.batches import batch_row
from buffer.batches.api.mixing import preview_answer
from buffer.batches.queries.arrivals import arrivals_of
from buffer.batches.queries.batch_items import ITEMS_AT_MOST, batch_and_items
from buffer.batches.schemas import queue_answers
from buffer.batches.services.queue_snapshots import queue_snapshot
from buffer.items.rules.batches import BatchNotFound
from runs.access.api.permissions import Readers
from runs.lifecycle.queries.runs import readable_run
from web.http.bodies import answer
from web.http.paging import page_of, page_parameters
from web.http.views import ApiView


class QueueView(ApiView):
    """The queue of a run."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="queue_get",
        responses={200: queue_answers.QueueAnswer},
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
        known = {
            name: depth[name]
            for name in set(queue_answers.QueueAnswer.__struct_fields__) & depth.keys()
        }
        fields |= known
        fields["at"] = now
        fields["ledger"] = found.ledger
        seen = found.next_batch
        fields["next_batch"] = None if seen is None else preview_answer(found.run, seen)
        fields["unit"] = "sequences" if found.run.takes_groups else "fragments"
        fields["paused"] = any(gate.closed for gate in found.state.gates)
        return answer(msgspec.convert(fields, queue_answers.QueueAnswer))


class PushRatesView(ApiView):
    """Push rates of environments."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="push_rates_list",
        responses={200: queue_answers.PushRateList},
        tags=["batches"],
    )
    def get(self, request: Request, run: str) -> HttpResponse:
        """Get push rates of environments.

        Pushes within the last minute, by environment; environments without pushes are omitted.
        """
        found = arrivals_of(readable_run(run), now=timezone.now())
        return answer(queue_answers.PushRateList(results=found, next=None))


class BatchItemsView(ApiView):
    """Items of a batch."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="batches_items",
        parameters=page_parameters(default=ITEMS_AT_MOST, most=ITEMS_AT_MOST),
        responses={200: queue_answers.BatchItems},
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
        return answer(queue_answers.BatchItems(batch=batch_row(row), results=results, next=cursor))
