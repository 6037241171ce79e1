"""Settle batches: move their items between states, acknowledge and quarantine them."""

from collections.abc import Collection
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db import transaction

from buffer.items.models import Batch, BatchUse, FragmentChunk, TrajectoryGroup
from buffer.items.rules.states import (
    EXPIRIES_BEFORE_QUARANTINE,
    OPEN,
    BatchNotFound,
    BatchState,
    DropReason,
    ItemKind,
    ItemState,
    LeaseLost,
    OutOfOrder,
)
from buffer.items.services import (
    COUNTED,
    MOVED,
    TABLES,
    Changes,
    confirm_sample,
    counted,
    lock_run,
    return_sample,
)
from buffer.payloads.services.eviction import evict
from runs.events.services import record_event
from runs.lifecycle.models import Trainer
from web import sql
from web.live.announcements import announce
from web.sql import filled, first_row, statements_of

SQL: Final = statements_of("buffer")

_MOVE_OF: Final = {
    kind: filled(SQL["move_items"], table=TABLES[kind], columns=MOVED[kind]) for kind in ItemKind
}


def confirm_items(batch: Batch, *, source: ItemState) -> None:
    """Settle a batch that is not sampled, and its items in `source`, as trained on."""
    _move(batch, source, ItemState.SERVED, before=SQL["confirm_batch"])


def quarantine_items(batch: Batch) -> None:
    """Quarantine the items of a batch; items of sampled batches stay in other batches."""
    if not batch.sampler:
        _move(batch, ItemState.LEASED, ItemState.QUARANTINED)


def release_items(
    batch: Batch,
    *,
    source: ItemState = ItemState.LEASED,
    doomed: Collection[int] | None = (),
    reason: DropReason | None = None,
) -> tuple[int, int]:
    """Drop some items of a batch and requeue the others; return the numbers of each.

    Args:
        batch: The batch, which will not be trained on.
        source: State of its items.
        doomed: Positions of the items to drop for `reason`; None for all.
        reason: Drop reason, if items are dropped.
    """
    if batch.sampler:
        return_sample(batch)
        uses = BatchUse.objects.filter(batch=batch)
        if doomed is not None:
            uses = uses.filter(position__in=doomed)
        if reason is None or not uses.exists():
            return 0, batch.items
        changes = Changes(batch.run_id, ItemKind(batch.kind))
        ids = uses.values_list("item_id", flat=True)
        evicted = evict(ids, reason=reason, states=[ItemState.QUEUED], changes=changes)
        changes.write()
        return evicted, max(0, batch.items - evicted)
    dropped = kept = 0
    if doomed is None or doomed:
        dropped = _move(batch, source, ItemState.DROPPED, reason=reason or "", only=doomed)
    if doomed is not None:
        kept = _move(batch, source, ItemState.QUEUED)
    return dropped, kept


def _move(
    batch: Batch,
    source: ItemState,
    to: ItemState,
    *,
    reason: str = "",
    only: Collection[int] | None = None,
    before: str = "",
) -> int:
    """Move the items of a batch, or those at positions `only`; return the number moved."""
    kind = ItemKind(batch.kind)
    values: dict[str, Any] = {
        "run": batch.run_id,
        "kind": str(kind),
        "batch": batch.pk,
        "source": source,
        "to": to,
        "reason": reason,
        "only": None if only is None else list(only),
    }
    with sql.cursor() as cursor:
        statement = f"WITH {before}{_MOVE_OF[kind]}"
        row = cursor.execute(statement.encode(), values, prepare=True).fetchone()
    return 0 if row is None else int(row[0])


def drop_fragments(
    run_id: int, *, reason: DropReason, states: Collection[ItemState] = OPEN, **which: Any
) -> int:
    """Drop the matching open fragments of a run; return the number removed.

    Fragments that were trained on or are in a batch are not dropped; see :func:`evict`.
    """
    rows = FragmentChunk.objects.filter(run_id=run_id, state__in=states, **which)
    changes = Changes(run_id, ItemKind.FRAGMENTS)
    taken = evict(rows.values_list("id", flat=True), reason=reason, states=states, changes=changes)
    changes.write()
    return taken


def drop_groups(
    run_id: int, *, reason: DropReason, states: Collection[ItemState] = OPEN, **which: Any
) -> int:
    """Drop the matching open groups of a run; return the number dropped."""
    rows = list(
        TrajectoryGroup.objects.select_for_update()
        .filter(run_id=run_id, state__in=states, **which)
        .order_by("id")
        .values_list("id", "state", *COUNTED[ItemKind.GROUPS])
    )
    if not rows:
        return 0
    TrajectoryGroup.objects.filter(id__in=[row[0] for row in rows]).update(
        state=ItemState.DROPPED, drop_reason=reason
    )
    changes = Changes(run_id, ItemKind.GROUPS)
    for _, state, *columns in rows:
        changes.move([counted(*columns)], ItemState(state), ItemState.DROPPED, reason=reason)
    changes.write()
    return len(rows)


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
