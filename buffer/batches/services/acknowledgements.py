"""Acknowledge batches as trained on."""

from typing import Final
from uuid import UUID

from django.db import transaction

from buffer.batches.services.transitions import confirm_items
from buffer.items.models import Batch
from buffer.items.rules.batches import BatchNotFound, LeaseLost, OutOfOrder
from buffer.items.rules.states import BatchState, ItemState
from buffer.items.services import confirm_sample, lock_run
from web.live.announcements import announce
from web.sql import first_row, statements_of

SQL: Final = statements_of("buffer")


@transaction.atomic
def acknowledge_batch(*, run_id: int, batch_id: UUID, fence: int) -> Batch:
    """Acknowledge a batch as trained on; idempotent for the current fence.

    Raises:
        BatchNotFound: If the run has no such batch.
        LeaseLost: If the batch has been leased again or dropped.
        OutOfOrder: If its trainer holds a batch that it received earlier.
    """
    lock_run(run_id)
    return acknowledge_locked(run_id=run_id, batch_id=batch_id, fence=fence)


def acknowledge_locked(*, run_id: int, batch_id: UUID, fence: int) -> Batch:
    """Acknowledge a batch like :func:`acknowledge_batch`; the caller holds the run's lock."""
    computed = {"earlier_ordinal": SQL["earlier_batch"]}
    batch = first_row(Batch, "run_id = %s AND id = %s", [run_id, batch_id], computed=computed)
    if batch is None:
        raise BatchNotFound(f"batch {batch_id} does not exist")
    if batch.fence != fence:
        raise LeaseLost(f"batch {batch_id} is leased under fence {batch.fence}, not {fence}")
    if batch.state == BatchState.DROPPED:
        raise LeaseLost(f"batch {batch_id} was dropped")
    if batch.state == BatchState.CONFIRMED:
        return batch
    earlier: int | None = batch.__dict__.pop("earlier_ordinal")
    if earlier is not None:
        raise OutOfOrder(
            f"batch {batch.ordinal} is acknowledged before batch {earlier}, which its "
            "trainer received earlier and still holds: acknowledge batches in order"
        )
    confirm(batch)
    return batch


@transaction.atomic
def acknowledge_final_batch(*, run_id: int, batch_id: UUID) -> bool:
    """Acknowledge the last batch of a run whose stock trainer requests no more batches.

    Returns:
        Whether the batch was still leased, with an expired lease.
    """
    lock_run(run_id)
    batch = first_row(
        Batch,
        "run_id = %s AND id = %s AND state = 'leased' AND lease_expires_at < statement_timestamp()",
        [run_id, batch_id],
    )
    if batch is None:
        return False
    confirm(batch)
    return True


def confirm(batch: Batch) -> None:
    """Settle a batch and its items as trained on."""
    was = ItemState.QUARANTINED if batch.state == BatchState.QUARANTINED else ItemState.LEASED
    if batch.sampler:
        confirm_sample(batch)
    else:
        confirm_items(batch, source=was)
    batch.state = BatchState.CONFIRMED
    announce(batch.run_id, "queue", "ledger")


def confirm_delivered(*, run_id: int) -> None:
    """Acknowledge the delivered batches of stock trainers, whose training is over."""
    with transaction.atomic():
        lock_run(run_id)
        for batch in Batch.objects.filter(run_id=run_id, state=BatchState.LEASED):
            if batch.delivered_at is not None:
                confirm(batch)
