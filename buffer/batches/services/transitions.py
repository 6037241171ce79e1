"""Move items between states, and update the counts."""

from collections.abc import Collection
from typing import Any, Final

from buffer.items.models import Batch, BatchUse, FragmentChunk, TrajectoryGroup
from buffer.items.rules.states import OPEN, DropReason, ItemKind, ItemState
from buffer.items.services import COUNTED, MOVED, TABLES, Changes, counted, return_sample
from buffer.payloads.services.eviction import evict
from web import sql
from web.sql import filled, statements_of

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
        return _release_sample(batch, doomed=doomed, reason=reason)
    dropped = kept = 0
    if doomed is None or doomed:
        dropped = _move(batch, source, ItemState.DROPPED, reason=reason or "", only=doomed)
    if doomed is not None:
        kept = _move(batch, source, ItemState.QUEUED)
    return dropped, kept


def _release_sample(
    batch: Batch, *, doomed: Collection[int] | None, reason: DropReason | None
) -> tuple[int, int]:
    return_sample(batch)
    uses = BatchUse.objects.filter(batch=batch)
    if doomed is not None:
        uses = uses.filter(position__in=doomed)
    if reason is None or not uses.exists():
        return 0, batch.items
    changes = Changes(batch.run_id, ItemKind(batch.kind))
    ids = uses.values_list("item_id", flat=True)
    dropped = evict(ids, reason=reason, states=[ItemState.QUEUED], changes=changes)
    changes.write()
    return dropped, max(0, batch.items - dropped)


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
