"""Quarantine of batches that presumably end their trainers."""

from datetime import datetime
from typing import Any

from django.db import transaction

from buffer.batches.services.transitions import quarantine_items
from buffer.items.models import Batch
from buffer.items.rules.states import EXPIRIES_BEFORE_QUARANTINE, BatchState
from runs.events.services import record_event
from runs.lifecycle.models import Trainer
from web.live.announcements import announce


@transaction.atomic
def quarantine(batch: Batch, *, reason: str, now: datetime) -> None:
    """Quarantine a batch that its caller has locked, with `reason` in the event."""
    Batch.objects.filter(pk=batch.pk).update(
        state=BatchState.QUARANTINED, lease_expiries=batch.lease_expiries
    )
    batch.state = BatchState.QUARANTINED
    quarantine_items(batch)
    emit_event(
        batch,
        kind="batch_quarantined",
        level="error",
        message=f"batch {batch.ordinal} is quarantined: {reason}",
        actor="buffer",
        items=batch.items,
        now=now,
    )


def emit_event(batch: Batch, *, items: int, **event: Any) -> None:
    """Record an event of a batch, and announce the change."""
    record_event(
        run_id=batch.run_id,
        details={
            "batch": str(batch.pk),
            "ordinal": batch.ordinal,
            "items": items,
            "lease_expiries": batch.lease_expiries,
        },
        **event,
    )
    announce(batch.run_id, "queue", "ledger")


def count_restart(batch: Batch, held: list[Batch], trainer: Trainer, *, now: datetime) -> bool:
    """Count the end of a trainer that held a batch; return whether the batch is quarantined.

    A trainer that registers again has restarted. A supervisor restarts it before its lease expires,
    so that the lease alone never shows a batch that ends every trainer. As with expiries, only the
    first of its batches counts: it had not begun the others.
    """
    has_restarted = batch.leased_at is not None and trainer.registered_at > batch.leased_at
    if not has_restarted or batch.ordinal > min(one.ordinal for one in held):
        return False
    batch.lease_expiries += 1
    if batch.lease_expiries < EXPIRIES_BEFORE_QUARANTINE:
        Batch.objects.filter(pk=batch.pk).update(lease_expiries=batch.lease_expiries)
        return False
    reason = (
        f"its trainer {trainer.identity} registered again without an acknowledgement, or its lease "
        f"expired, {batch.lease_expiries} times"
    )
    quarantine(batch, reason=reason, now=now)
    return True
