"""Move items between states, and update the counts."""

from collections.abc import Collection
from typing import Any, Final

from django.db import connection

from buffer.items.models.items import Batch, FragmentChunk, TrajectoryGroup
from buffer.items.models.uses import BatchUse
from buffer.items.rules.states import OPEN, DropReason, ItemKind, ItemState
from buffer.items.services.sample_counts import return_sample
from buffer.items.services.tallies import COUNTED, Changes, Counted, counted
from buffer.payloads.services.eviction import evict
from web import database

_TABLES: Final = {
    ItemKind.GROUPS: "buffer_trajectorygroup",
    ItemKind.FRAGMENTS: "buffer_fragmentchunk",
}


_MOVE: Final = """
    UPDATE {table} SET state = %(to)s::text, drop_reason = %(reason)s::text,
        batch_id = CASE WHEN %(to)s::text <> 'queued' THEN batch_id END,
        position = CASE WHEN %(to)s::text <> 'queued' THEN position END
    WHERE batch_id = %(batch)s AND state = %(source)s::text
    AND (%(only)s::int[] IS NULL OR position = ANY(%(only)s::int[]))
    RETURNING {columns}"""
_MOVE_OF: Final = {
    kind: _MOVE.format(table=_TABLES[kind], columns=", ".join(columns))
    for kind, columns in COUNTED.items()
}


def serve_fragments(batch: Batch, *, source: ItemState) -> None:
    """Mark the fragments of a batch that is not sampled as trained on; they are in `source`."""
    _move(batch, source, ItemState.SERVED)


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
) -> int:
    """Move the items of a batch, or those at positions `only`; return the number moved."""
    kind = ItemKind(batch.kind)
    values: dict[str, Any] = {
        "batch": batch.pk,
        "source": source,
        "to": to,
        "reason": reason,
        "only": None if only is None else list(only),
    }
    with database.cursor() as cursor:
        cursor.execute(_MOVE_OF[kind], values, prepare=True)
        moved = [counted(*row) for row in cursor.fetchall()]
    changes = Changes(batch.run_id, kind)
    changes.move(moved, source, to, reason=reason)
    changes.write()
    return len(moved)


def lease_items(batch: Batch, items: list[tuple[int, Counted]]) -> bool:
    """Move queued items into a batch, in order; return False if an item was not queued.

    The counts are updated from the rows, not from the values in `items`.
    """
    kind = ItemKind(batch.kind)
    table = _TABLES[kind]
    columns = ", ".join(f"i.{name}" for name in COUNTED[kind])
    with connection.cursor() as cursor:
        cursor.execute(
            f"""UPDATE {table} i SET state = 'leased', batch_id = %s, position = p.place - 1
            FROM unnest(%s::bigint[]) WITH ORDINALITY AS p(id, place)
            WHERE i.id = p.id AND i.state = 'queued'
            RETURNING {columns}""",  # noqa: S608 constants only
            [batch.pk, [item_id for item_id, _ in items]],
        )
        moved = [counted(*row) for row in cursor.fetchall()]
    if len(moved) != len(items):
        return False
    changes = Changes(batch.run_id, kind)
    changes.move(moved, ItemState.QUEUED, ItemState.LEASED)
    changes.write()
    return True


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
