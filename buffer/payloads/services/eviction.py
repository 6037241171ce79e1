"""Eviction of fragments from sampling, in whole chunks.

A fragment that is evicted while a batch holds it is leased until that batch is settled, and its
bytes are kept. Then, or at once, it is served if a trainer has trained on it, and dropped if not.
"""

from collections.abc import Collection, Iterable
from typing import Any, Final

from django.db import connection

from buffer.items.models import FragmentChunk
from buffer.items.queries import queued_fragments
from buffer.items.rules.states import DropReason, ItemState
from buffer.items.services import Changes, counted, lock_run
from runs.config.rules.sections import ReplayConfig, replay_of
from runs.lifecycle.models import Run
from web.sql import statements_of

SQL: Final = statements_of("buffer")


def evict(
    ids: Iterable[int], *, reason: DropReason, states: Collection[ItemState], changes: Changes
) -> int:
    """Evict fragments in `states`, with the rest of their chunks; return the number evicted.

    Batches that hold them continue, unless `states` include leased ones; then the caller drops
    the batches too.
    """
    item_ids = list(ids)
    if not item_ids:
        return 0
    chunks = FragmentChunk.objects.filter(id__in=item_ids, chunk__isnull=False).values("chunk")
    item_ids += FragmentChunk.objects.filter(chunk__in=chunks).values_list("id", flat=True)
    with connection.cursor() as cursor:
        cursor.execute(
            SQL["evict_fragments"],
            {
                "ids": item_ids,
                "states": [str(state) for state in states],
                "batches_live": ItemState.LEASED not in states,
                "reason": str(reason),
            },
        )
        moved = cursor.fetchall()
    for source, to, *columns in moved:
        changes.move(
            [counted(*columns)],
            ItemState(source),
            ItemState(to),
            reason=str(reason) if to == ItemState.DROPPED else "",
        )
    return len(moved)


def keep_within_capacity(
    run: Run,
    changes: Changes,
    *,
    environments: Iterable[str] = (),
    queued: int | None = None,
    arriving: int = 0,
) -> int:
    """Evict the oldest chunks beyond the run's capacities; return the number of fragments.

    Uncommitted changes of other transactions are not visible; the next call corrects this.

    Args:
        run: The run.
        changes: Collects the moves; the caller writes them.
        environments: Environments whose own capacity may be exceeded.
        queued: Number of queued fragments of the run's epoch, if the caller knows it.
        arriving: Fragments queued by this transaction and counted in `changes`.
    """
    replay = replay_of(run.config)
    if queued is None:
        queued = queued_fragments(run.pk, run.epoch)
    if not _beyond_capacity(run, replay, environments=environments, queued=queued + arriving):
        return 0
    lock_run(run.pk)
    queued = queued_fragments(run.pk, run.epoch) + arriving
    heads = _beyond_capacity(run, replay, environments=environments, queued=queued)
    return evict(heads, reason=DropReason.CAPACITY, states=[ItemState.QUEUED], changes=changes)


def _beyond_capacity(
    run: Run, replay: ReplayConfig, *, environments: Iterable[str], queued: int
) -> set[int]:
    """Return the ids of the chunks beyond the capacities."""
    heads: set[int] = set()
    which: dict[str, Any] = {"run": run.pk, "epoch": run.epoch}
    if replay.max_chunks_per_environment is not None:
        for environment in set(environments):
            most = replay.max_chunks_per_environment
            heads |= _found(
                SQL["chunks_beyond"], which | {"environment": environment, "most": most}
            )
    if replay.max_chunks is not None:
        over = queued // replay.fragments_per_chunk - replay.max_chunks - len(heads)
        if over > 0:
            heads |= _found(SQL["oldest_chunks"], which | {"over": over, "gone": list(heads)})
    return heads


def _found(query: str, values: dict[str, Any]) -> set[int]:
    with connection.cursor() as cursor:
        cursor.execute(query, values)
        return {item_id for (item_id,) in cursor.fetchall()}
