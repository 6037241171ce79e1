"""Decide what becomes of batches whose lease ran out.

A batch comes back whole. One that comes back again and again kills its trainers, as far as
anybody can see from here: it is quarantined, with an alert, until a person releases its items or
discards them. Until then a late confirmation of its last trainer still counts.
"""

from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db import transaction
from django.db.models import Case, F, When
from django.db.models.functions import Now

from buffer.batches.services.leases import BatchNotFound, dissolve
from buffer.items.models.items import Batch
from buffer.items.rules.states import LAPSES_BEFORE_QUARANTINE, BatchState, DropReason, Fate
from buffer.items.services.locks import lock_run
from buffer.payloads.services.transitions import quarantine_items
from runs import live
from runs import services as runs_services

RECLAIMED_AT_ONCE: Final = 200
_LAST_CHANCE: Final = LAPSES_BEFORE_QUARANTINE - 1


class NotQuarantined(Exception):
    """The batch is not in quarantine, and its lease has not lapsed: nobody is to decide yet."""


@transaction.atomic
def return_lapsed_batches() -> int:
    """Let batches whose lease has lapsed wait for the next trainer; return how many.

    The batch stays whole and keeps its fence and last holder: until somebody else leases it, a
    late confirmation of its trainer still counts.
    """
    lapsed = (
        Batch.objects.select_for_update(skip_locked=True, of=("self",))
        .filter(state=BatchState.LEASED, lease_expires_at__lt=Now(), lapses__lt=_LAST_CHANCE)
        .order_by("lease_expires_at")[:RECLAIMED_AT_ONCE]
    )
    rows = list(lapsed.values_list("id", "run_id"))
    returned = Batch.objects.filter(
        id__in=[batch_id for batch_id, _ in rows], state=BatchState.LEASED
    ).update(state=BatchState.RETURNED, lapses=F("lapses") + 1)
    for run_id in {run_id for _, run_id in rows}:
        live.announce(run_id, "queue", "ledger")
    return returned


def quarantine_poison(*, now: datetime) -> int:
    """Take batches out of circulation whose lease has lapsed once too often; return how many."""
    lapsed = Batch.objects.filter(
        state=BatchState.LEASED, lease_expires_at__lt=Now(), lapses__gte=_LAST_CHANCE
    )
    rows = list(lapsed.values_list("id", "run_id")[:RECLAIMED_AT_ONCE])
    return sum(_quarantine(batch_id, run_id, now=now) for batch_id, run_id in rows)


@transaction.atomic
def _quarantine(batch_id: UUID, run_id: int, *, now: datetime) -> bool:
    # Before any row: who forms batches takes this lock first as well.
    lock_run(run_id)
    if not Batch.objects.filter(
        pk=batch_id, state=BatchState.LEASED, lease_expires_at__lt=Now()
    ).update(state=BatchState.QUARANTINED, lapses=F("lapses") + 1):
        return False
    batch = Batch.objects.get(pk=batch_id)
    quarantine_items(batch)
    _tell(
        batch,
        kind="batch_quarantined",
        level="error",
        message=f"batch {batch.ordinal} is quarantined: its lease lapsed {batch.lapses} times",
        actor="buffer",
        items=batch.items,
        now=now,
    )
    return True


@transaction.atomic
def release(*, run_id: int, batch_id: UUID, actor: str, reason: str = "", now: datetime) -> Batch:
    """Put the items of a batch that nobody holds back into the queue; the batch itself is over.

    Raises:
        BatchNotFound: If the run has no such batch.
        NotQuarantined: If it is neither in quarantine nor left by its trainer, or not any more.
    """
    batch, source = _left_alone(run_id, batch_id)
    _, items = dissolve(batch, source=source)
    _tell(
        batch,
        kind="batch_released",
        level="warning",
        message=f"{items} items of batch {batch.ordinal} went {_from(source)} to the queue",
        actor=actor,
        reason=reason,
        items=items,
        now=now,
    )
    batch.refresh_from_db(fields=["settled_at"])
    return batch


@transaction.atomic
def discard(*, run_id: int, batch_id: UUID, actor: str, reason: str = "", now: datetime) -> Batch:
    """Drop the items of a batch that nobody holds: as poison if it was in quarantine.

    Raises:
        BatchNotFound: If the run has no such batch.
        NotQuarantined: If it is neither in quarantine nor left by its trainer, or not any more.
    """
    batch, source = _left_alone(run_id, batch_id)
    why = DropReason.POISON if source is Fate.QUARANTINED else DropReason.DISCARDED
    items, _ = dissolve(batch, source=source, doomed=None, reason=why)
    _tell(
        batch,
        kind="batch_discarded",
        level="warning",
        message=f"{items} items of batch {batch.ordinal} were dropped as {why}",
        actor=actor,
        reason=reason,
        items=items,
        now=now,
    )
    batch.refresh_from_db(fields=["settled_at"])
    return batch


def _left_alone(run_id: int, batch_id: UUID) -> tuple[Batch, Fate]:
    """Return a batch that no trainer holds any more, and the fate of its items."""
    lock_run(run_id)
    batches = Batch.objects.select_related("trainer")
    # The database's clock says whether a lease has lapsed, also before the sweep has come by.
    has_lapsed = Case(When(lease_expires_at__lt=Now(), then=True), default=False)
    batch = batches.annotate(has_lapsed=has_lapsed).filter(run_id=run_id, pk=batch_id).first()
    if batch is None:
        raise BatchNotFound(f"there is no batch {batch_id}")
    if batch.state == BatchState.QUARANTINED:
        return batch, Fate.QUARANTINED
    lapsed = batch.state == BatchState.LEASED and batch.has_lapsed
    if batch.state == BatchState.RETURNED or lapsed:
        return batch, Fate.LEASED
    raise NotQuarantined(f"batch {batch_id} is {batch.state}, not quarantined, and not given up")


def _from(source: Fate) -> str:
    return "from quarantine" if source is Fate.QUARANTINED else "from a lapsed lease"


def _tell(batch: Batch, *, items: int, **event: Any) -> None:
    runs_services.record_event(
        run_id=batch.run_id,
        details={
            "batch": str(batch.pk),
            "ordinal": batch.ordinal,
            "items": items,
            "lapses": batch.lapses,
        },
        **event,
    )
    live.announce(batch.run_id, "queue", "ledger")
