"""Handling of batches with expired leases.

A batch returns to the queue unchanged, with one exception: the last batch of a run, delivered
completely to a stock trainer, counts as trained on, because no further request acknowledges it. A
batch whose leases expire repeatedly presumably crashes its trainers: it is quarantined, with an
alert, until an operator releases or discards it. Until then, a late acknowledgement by its last
trainer is still accepted. Of several batches of one trainer, only the first counts its expiries:
the trainer had not begun the others.

Every payload is verified when it is served. A corrupt item is dropped with an alert, the other
items of its batch return to the head of the queue, and the trainer gets a new batch.
"""

from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db import transaction
from django.db.models import Case, Exists, F, OuterRef, Q, When
from django.db.models.functions import Now

from buffer.batches.rules.deliveries import SENDING_LIMIT
from buffer.batches.services.leases import Lease, release_batch
from buffer.batches.services.settlement import acknowledge_final_batch, emit_event, quarantine
from buffer.items.models import Batch
from buffer.items.rules.states import (
    EXPIRIES_BEFORE_QUARANTINE,
    OPEN_BATCHES,
    BatchNotFound,
    BatchState,
    DropReason,
    ItemKind,
    ItemState,
    LeaseLost,
)
from buffer.items.services import lock_run
from buffer.payloads.services.contents import StoredContent, batch_contents
from runs.alerts.rules import AlertKind, Condition
from runs.alerts.services.alerts import raise_alert
from runs.events.services import record_event
from runs.lifecycle.rules import RunStatus
from web.live.announcements import announce
from web.rules.errors import Conflict


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
    contents = None
    if lease.reading is not None and len(places) == batch.items:
        contents = lease.reading.wait()
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


RECLAIMED_AT_ONCE: Final = 200
_LAST_CHANCE: Final = EXPIRIES_BEFORE_QUARANTINE - 1
_IS_FIRST: Final = ~Exists(
    Batch.objects.filter(
        run_id=OuterRef("run_id"),
        trainer_id=OuterRef("trainer_id"),
        state__in=OPEN_BATCHES,
        ordinal__lt=OuterRef("ordinal"),
    )
)
"""Whether a batch is the first of those that its trainer holds, or held last."""
_IS_SUSPECT: Final = Q(_IS_FIRST, lease_expiries__gte=_LAST_CHANCE)


_IS_SENT: Final = Q(sending_since__isnull=False, sending_since__gt=Now() - SENDING_LIMIT)


class NotQuarantined(Conflict):
    """The batch is neither quarantined nor expired, so it cannot be released or discarded."""

    code = "not_quarantined"
    title = "Not in quarantine"


def acknowledge_final_batches() -> int:
    """Acknowledge expired last batches that stock trainers received; return their number."""
    expired = Batch.objects.filter(
        state=BatchState.LEASED,
        lease_expires_at__lt=Now(),
        delivered_at__isnull=False,
        trainer__is_stock=True,
        run__status=RunStatus.DRAINING,
        run__ends_at_num_steps=True,
        run__num_steps__gt=0,
        run__num_steps__lte=F("ordinal") + F("run__starting_step"),
    )
    rows = list(expired.values_list("id", "run_id")[:RECLAIMED_AT_ONCE])
    return sum(acknowledge_final_batch(run_id=run_id, batch_id=pk) for pk, run_id in rows)


@transaction.atomic
def return_expired_batches() -> int:
    """Return batches with expired leases to the queue; return the number of batches.

    A batch whose answer is being sent, or was sent while the database was unavailable, is left
    alone for :data:`SENDING_LIMIT`.

    A batch stays unchanged and keeps its fence and last holder: until another trainer leases it,
    a late acknowledgement by its trainer is still accepted.
    """
    expired = (
        Batch.objects.select_for_update(skip_locked=True, of=("self",))
        .filter(~_IS_SUSPECT, ~_IS_SENT, state=BatchState.LEASED, lease_expires_at__lt=Now())
        .order_by("lease_expires_at")[:RECLAIMED_AT_ONCE]
    )
    rows = list(expired.values_list("id", "run_id"))
    returned = Batch.objects.filter(
        id__in=[batch_id for batch_id, _ in rows], state=BatchState.LEASED
    ).update(
        state=BatchState.RETURNED,
        lease_expiries=F("lease_expiries") + Case(When(_IS_FIRST, then=1), default=0),
    )
    for run_id in {run_id for _, run_id in rows}:
        announce(run_id, "queue", "ledger")
    return returned


def quarantine_repeated_expiries(*, now: datetime) -> int:
    """Quarantine batches whose leases expired too often; return the number of batches."""
    expired = Batch.objects.filter(_IS_SUSPECT, state=BatchState.LEASED, lease_expires_at__lt=Now())
    rows = list(expired.values_list("id", "run_id")[:RECLAIMED_AT_ONCE])
    return sum(_quarantine(batch_id, run_id, now=now) for batch_id, run_id in rows)


@transaction.atomic
def _quarantine(batch_id: UUID, run_id: int, *, now: datetime) -> bool:
    # Lock before any row, in the same order as forming.
    lock_run(run_id)
    expired = Batch.objects.filter(
        pk=batch_id, state=BatchState.LEASED, lease_expires_at__lt=Now()
    ).first()
    if expired is None:
        return False
    expired.lease_expiries += 1
    quarantine(expired, reason=f"its lease expired {expired.lease_expiries} times", now=now)
    return True


@transaction.atomic
def release(*, run_id: int, batch_id: UUID, actor: str, reason: str = "", now: datetime) -> Batch:
    """Return the items of a quarantined or expired batch to the queue; the batch ends.

    Raises:
        BatchNotFound: If the run has no such batch.
        NotQuarantined: If it is neither in quarantine nor left by its trainer, or not any more.
    """
    batch, source = _unleased_batch(run_id, batch_id)
    _, items = release_batch(batch, source=source)
    left = "quarantine" if source is ItemState.QUARANTINED else "an expired lease"
    message = f"{items} items of batch {batch.ordinal} returned from {left} to the queue"
    return _ended(batch, "released", message, actor=actor, reason=reason, items=items, now=now)


@transaction.atomic
def discard(
    *,
    run_id: int,
    batch_id: UUID,
    actor: str,
    fence: int | None = None,
    reason: str = "",
    now: datetime,
) -> Batch:
    """Drop the items of a quarantined batch as `poison`, of another one as `discarded`.

    Args:
        run_id: The run.
        batch_id: The batch.
        actor: Identity of the caller.
        fence: Fence of the lease of a batch that a trainer holds; None for other batches.
        reason: Reason in the event.
        now: Present time.

    Raises:
        BatchNotFound: If the run has no such batch.
        NotQuarantined: If it is neither in quarantine nor left by its trainer, or not any more,
            and is not leased under `fence`.
    """
    batch, source = _unleased_batch(run_id, batch_id, fence=fence)
    why = DropReason.POISON if source is ItemState.QUARANTINED else DropReason.DISCARDED
    items, _ = release_batch(batch, source=source, doomed=None, reason=why)
    message = f"{items} items of batch {batch.ordinal} were dropped as {why}"
    return _ended(batch, "discarded", message, actor=actor, reason=reason, items=items, now=now)


def _ended(batch: Batch, outcome: str, message: str, **event: Any) -> Batch:
    """Record the end of a batch by an operator, and return it with its time."""
    emit_event(batch, kind=f"batch_{outcome}", level="warning", message=message, **event)
    batch.refresh_from_db(fields=["settled_at"])
    return batch


def _unleased_batch(
    run_id: int, batch_id: UUID, *, fence: int | None = None
) -> tuple[Batch, ItemState]:
    """Return a quarantined or expired batch, or one leased under `fence`, and its items' state."""
    lock_run(run_id)
    batches = Batch.objects.select_related("trainer")
    # The database clock decides expiry, also before the periodic job has processed the batch.
    has_expired = Case(When(lease_expires_at__lt=Now(), then=True), default=False)
    batch = batches.annotate(has_expired=has_expired).filter(run_id=run_id, pk=batch_id).first()
    if batch is None:
        raise BatchNotFound(f"batch {batch_id} does not exist")
    if batch.state == BatchState.QUARANTINED:
        return batch, ItemState.QUARANTINED
    is_leased = batch.state == BatchState.LEASED
    is_free = is_leased and (batch.has_expired or batch.fence == fence)
    if batch.state == BatchState.RETURNED or is_free:
        return batch, ItemState.LEASED
    held = f" under fence {batch.fence}" if is_leased else ""
    raise NotQuarantined(f"batch {batch_id} is {batch.state}{held}, not quarantined or expired")
