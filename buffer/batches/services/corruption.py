"""Checksum verification of served items.

Every payload is verified when it is served. A corrupt item is dropped with an alert, the other
items of its batch return to the head of the queue, and the trainer gets a new batch.
"""

from datetime import datetime

from django.db import transaction

from buffer.batches.services.leases import Lease, release_batch
from buffer.items.models import Batch
from buffer.items.rules.batches import LeaseLost
from buffer.items.rules.states import BatchState, DropReason, ItemKind
from buffer.items.services import lock_run
from buffer.payloads.services.contents import StoredContent, batch_contents
from runs.alerts.rules import AlertKind, Condition
from runs.alerts.services.alerts import raise_alert
from runs.events.services import record_event
from web.live.announcements import announce


class BatchCorrupt(LeaseLost):
    """Stored bytes of the batch fail their checksums; the batch was split up."""


def contents_of(
    lease: Lease, *, positions: range | None = None, now: datetime
) -> list[StoredContent]:
    """Return the verified bytes of a leased batch's items, in order.

    Args:
        lease: The lease of the batch.
        positions: Positions of the requested items; by default all.
        now: Time of the request.

    Raises:
        BatchCorrupt: If items are corrupt. They are dropped and the batch ends: lease the next.
        LeaseLost: If the batch was split up concurrently.
        PayloadMissing: If the bytes of an item are missing.
    """
    batch = lease.batch
    places = range(batch.items) if positions is None else positions
    contents = _read_ahead(lease, places)
    if contents is None:
        contents = batch_contents(ItemKind(batch.kind), batch.pk, positions=places)
    if len(contents) != len(places):
        raise LeaseLost(f"batch {batch.pk} was split up while it was read")
    corrupt = [
        place for place, stored in zip(places, contents, strict=True) if not stored.is_intact()
    ]
    if corrupt:
        _requeue_intact(batch, corrupt, now=now)
        raise BatchCorrupt(
            f"{len(corrupt)} items of batch {batch.pk} are corrupt: request the next batch"
        )
    return contents


def _read_ahead(lease: Lease, places: range) -> list[StoredContent] | None:
    if lease.reading is None or len(places) != lease.batch.items:
        return None
    return lease.reading.wait()


@transaction.atomic
def _requeue_intact(batch: Batch, corrupt: list[int], *, now: datetime) -> None:
    """Drop the items at these positions and requeue the others, unless already done."""
    lock_run(batch.run_id)
    current = Batch.objects.filter(pk=batch.pk, state=BatchState.LEASED).first()
    if current is None:
        return
    dropped, kept = release_batch(current, doomed=corrupt, reason=DropReason.CORRUPT)
    record_event(
        run_id=batch.run_id,
        kind="items_corrupt",
        level="error",
        message=f"dropped {dropped} items of batch {batch.ordinal}: their bytes are corrupt",
        reason="the stored bytes do not match their checksums",
        actor="buffer",
        details={"batch": str(batch.pk), "positions": corrupt, "requeued": kept},
        now=now,
    )
    raise_alert(
        Condition(
            kind=AlertKind.ITEMS_CORRUPT,
            run_id=batch.run_id,
            message=f"{dropped} items of batch {batch.ordinal} of {batch.run.name} are corrupt",
            details={"batch": str(batch.pk), "positions": corrupt},
        ),
        now=now,
    )
    announce(batch.run_id, "queue", "ledger")
