"""Move items from fate to fate, counting every move."""

from collections.abc import Collection
from typing import Any

from django.db import connection

from buffer.core.fates import OPEN, DropReason, Fate, ItemKind
from buffer.models import Batch, FragmentChunk, TrajectoryGroup
from buffer.services.tallies import Changes, Counted


def move_batch_items(batch: Batch, *, to: Fate) -> None:
    """Move the leased items of a batch to `served`, or one by one back to `queued`."""
    kind = ItemKind(batch.kind)
    if kind is ItemKind.GROUPS:
        rows = TrajectoryGroup.objects.filter(batch=batch, state=Fate.LEASED)
        items = [
            Counted(0, env_id, size) for env_id, size in rows.values_list("env_id", "sequences")
        ]
    else:
        chunks = FragmentChunk.objects.filter(batch=batch, state=Fate.LEASED)
        items = [Counted(epoch, None, 1) for epoch in chunks.values_list("epoch", flat=True)]
    model = TrajectoryGroup if kind is ItemKind.GROUPS else FragmentChunk
    changed: dict[str, Any] = {"state": to}
    if to is Fate.QUEUED:
        changed |= {"batch": None, "position": None}
    model.objects.filter(batch=batch, state=Fate.LEASED).update(**changed)
    changes = Changes(batch.run_id, kind)
    changes.move(items, Fate.LEASED, to)
    changes.write()


def lease_items(batch: Batch, items: list[tuple[int, Counted]]) -> bool:
    """Move queued items into a batch, in this order; return False when one was not queued."""
    kind = ItemKind(batch.kind)
    table = "buffer_trajectorygroup" if kind is ItemKind.GROUPS else "buffer_fragmentchunk"
    with connection.cursor() as cursor:
        cursor.execute(
            f"""UPDATE {table} i SET state = 'leased', batch_id = %s, position = p.place - 1
            FROM unnest(%s::bigint[]) WITH ORDINALITY AS p(id, place)
            WHERE i.id = p.id AND i.state = 'queued'""",  # noqa: S608 one of two names
            [batch.pk, [item_id for item_id, _ in items]],
        )
        if cursor.rowcount != len(items):
            return False
    changes = Changes(batch.run_id, kind)
    changes.move([counted for _, counted in items], Fate.QUEUED, Fate.LEASED)
    changes.write()
    return True


def drop_fragments(
    run_id: int, *, reason: DropReason, states: Collection[Fate] = OPEN, **which: Any
) -> int:
    """Drop the open fragments of a run that match; return how many."""
    rows = list(
        FragmentChunk.objects.select_for_update()
        .filter(run_id=run_id, state__in=states, **which)
        .order_by("id")
        .values_list("id", "state", "epoch")
    )
    if not rows:
        return 0
    FragmentChunk.objects.filter(id__in=[row[0] for row in rows]).update(
        state=Fate.DROPPED, drop_reason=reason
    )
    dropped = [(Fate(state), Counted(epoch, None, 1)) for _, state, epoch in rows]
    _count_dropped(Changes(run_id, ItemKind.FRAGMENTS), dropped, reason)
    return len(rows)


def drop_groups(run_id: int, *, reason: DropReason) -> int:
    """Drop the open groups of a run; return how many."""
    rows = list(
        TrajectoryGroup.objects.select_for_update()
        .filter(run_id=run_id, state__in=OPEN)
        .order_by("id")
        .values_list("id", "state", "env_id", "sequences")
    )
    TrajectoryGroup.objects.filter(id__in=[row[0] for row in rows]).update(
        state=Fate.DROPPED, drop_reason=reason
    )
    dropped = [(Fate(state), Counted(0, env_id, size)) for _, state, env_id, size in rows]
    _count_dropped(Changes(run_id, ItemKind.GROUPS), dropped, reason)
    return len(rows)


def _count_dropped(changes: Changes, items: list[tuple[Fate, Counted]], reason: DropReason) -> None:
    for fate, counted in items:
        changes.move([counted], fate, Fate.DROPPED, reason=reason)
    changes.write()
