"""Move items from fate to fate, counting every move."""

from collections.abc import Collection
from typing import Any

from django.db import connection

from buffer.core.fates import OPEN, DropReason, Fate, ItemKind
from buffer.models import Batch, FragmentChunk, TrajectoryGroup
from buffer.services.retiring import retire
from buffer.services.tallies import COUNTED, Changes, Counted, counted
from buffer.services.uses import settle_uses


def move_batch_items(batch: Batch, *, to: Fate) -> None:
    """Move the leased items of a batch to `served`, or one by one back to `queued`."""
    kind = ItemKind(batch.kind)
    if batch.sampler:
        settle_uses(batch, confirmed=to is Fate.SERVED)
        return
    model = TrajectoryGroup if kind is ItemKind.GROUPS else FragmentChunk
    rows = model.objects.filter(batch=batch, state=Fate.LEASED)
    items = [counted(*row) for row in rows.values_list(*COUNTED[kind])]
    changed: dict[str, Any] = {"state": to}
    if to is Fate.QUEUED:
        changed |= {"batch": None, "position": None}
    model.objects.filter(batch=batch, state=Fate.LEASED).update(**changed)
    changes = Changes(batch.run_id, kind)
    changes.move(items, Fate.LEASED, to)
    changes.write()


def lease_items(batch: Batch, items: list[tuple[int, Counted]]) -> bool:
    """Move queued items into a batch, in this order; return False when one was not queued.

    What is counted is read from the rows, whatever the caller knows of them.
    """
    kind = ItemKind(batch.kind)
    table = "buffer_trajectorygroup" if kind is ItemKind.GROUPS else "buffer_fragmentchunk"
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
    changes.move(moved, Fate.QUEUED, Fate.LEASED)
    changes.write()
    return True


def drop_fragments(
    run_id: int, *, reason: DropReason, states: Collection[Fate] = OPEN, **which: Any
) -> int:
    """Take the open fragments of a run that match out; return how many.

    They are dropped, but for those that were trained on or that a batch holds, see :func:`retire`.
    """
    rows = FragmentChunk.objects.filter(run_id=run_id, state__in=states, **which)
    changes = Changes(run_id, ItemKind.FRAGMENTS)
    taken = retire(rows.values_list("id", flat=True), reason=reason, states=states, changes=changes)
    changes.write()
    return taken


def drop_groups(
    run_id: int, *, reason: DropReason, states: Collection[Fate] = OPEN, **which: Any
) -> int:
    """Drop the open groups of a run that match; return how many."""
    rows = list(
        TrajectoryGroup.objects.select_for_update()
        .filter(run_id=run_id, state__in=states, **which)
        .order_by("id")
        .values_list("id", "state", *COUNTED[ItemKind.GROUPS])
    )
    if not rows:
        return 0
    TrajectoryGroup.objects.filter(id__in=[row[0] for row in rows]).update(
        state=Fate.DROPPED, drop_reason=reason
    )
    changes = Changes(run_id, ItemKind.GROUPS)
    for _, state, *columns in rows:
        changes.move([counted(*columns)], Fate(state), Fate.DROPPED, reason=reason)
    changes.write()
    return len(rows)
