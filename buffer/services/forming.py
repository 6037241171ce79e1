"""Form a batch from what is queued, from metadata only."""

from collections import Counter
from typing import Final

from django.db.models import QuerySet
from django.db.models.functions import Now

from buffer import selectors
from buffer.core.exact_fill import exact_fill, oldest_prefix, window_length
from buffer.core.fates import BatchState, Fate, ItemKind
from buffer.models import Batch, FragmentChunk, TrajectoryGroup
from buffer.services.items import lease_items
from buffer.services.tallies import Counted
from runs.models import Run, RunKind, Trainer

_PAGE: Final = 1024
# id, env_id, sequences, size_bytes
_GroupRow = tuple[int, int | None, int, int]


class ItemsMoved(RuntimeError):
    """Somebody moved queued items of a run without holding its lock."""


def form(run: Run, trainer: Trainer, *, count: int | None = None) -> Batch | None:
    """Return the next batch of a run, its items leased, or None when there is no whole one.

    The caller holds the run's lock and writes the lease.
    """
    size = count or run.batch_size
    if size is None:
        return None
    if run.kind == RunKind.FLEET:
        return _form_of_fragments(run, trainer, size)
    return _form_of_groups(run, trainer, run.batch_size or size)


def _form_of_groups(run: Run, trainer: Trainer, batch_size: int) -> Batch | None:
    rows = _choose(run.pk, batch_size)
    if rows is None:
        return None
    composition: Counter[str] = Counter()
    for _, env_id, sequences, _ in rows:
        composition["" if env_id is None else str(env_id)] += sequences
    return _create(
        run,
        trainer,
        ItemKind.GROUPS,
        [(item_id, Counted(0, env_id, sequences)) for item_id, env_id, sequences, _ in rows],
        size_bytes=sum(row[3] for row in rows),
        composition=composition,
        staleness=Counter(),
    )


def _choose(run_id: int, batch_size: int) -> list[_GroupRow] | None:
    """Return queued groups, oldest first, that sum exactly to `batch_size`."""
    counts = selectors.queued_by_size(run_id)
    if sum(size * count for size, count in counts.items()) < batch_size:
        return None
    window = _window(run_id, batch_size)
    prefix = oldest_prefix([row[2] for row in window], batch_size)
    if prefix is not None:
        return [window[place] for place in prefix]
    window = window[: window_length(batch_size)]
    behind = Counter(counts)
    behind.subtract(row[2] for row in window)
    fill = exact_fill(
        [row[2] for row in window],
        behind={size: count for size, count in behind.items() if count > 0},
        target=batch_size,
    )
    if fill is None:
        return None
    rows = [window[place] for place in fill.chosen]
    last = window[-1][0] if window else 0
    for size, count in fill.behind.items():
        rows += _queue(run_id).filter(sequences=size, id__gt=last)[:count]
    # A count may be ahead of the rows for the length of a commit.
    if sum(sequences for _, _, sequences, _ in rows) != batch_size:
        return None
    return sorted(rows)


def _queue(run_id: int) -> QuerySet[TrajectoryGroup, _GroupRow]:
    return (
        TrajectoryGroup.objects.filter(run_id=run_id, state=Fate.QUEUED)
        .order_by("id")
        .values_list("id", "env_id", "sequences", "size_bytes")
    )


def _window(run_id: int, batch_size: int) -> list[_GroupRow]:
    """Return the oldest groups, until they hold a batch or there are no more."""
    rows: list[_GroupRow] = []
    total = 0
    while total < batch_size:
        last = rows[-1][0] if rows else 0
        page = list(_queue(run_id).filter(id__gt=last)[: min(_PAGE, batch_size)])
        rows += page
        total += sum(sequences for _, _, sequences, _ in page)
        if len(page) < min(_PAGE, batch_size):
            break
    return rows


def _form_of_fragments(run: Run, trainer: Trainer, count: int) -> Batch | None:
    if selectors.queued_fragments(run.pk, run.epoch) < count:
        return None
    rows = list(
        FragmentChunk.objects.filter(run=run, epoch=run.epoch, state=Fate.QUEUED)
        .order_by("id")
        .values_list("id", "version_min", "environment", "size_bytes")[:count]
    )
    if len(rows) < count:
        return None
    return _create(
        run,
        trainer,
        ItemKind.FRAGMENTS,
        [(item_id, Counted(run.epoch, None, 1)) for item_id, _, _, _ in rows],
        size_bytes=sum(row[3] for row in rows),
        composition=Counter(environment for _, _, environment, _ in rows),
        staleness=Counter(str(run.policy_step - version) for _, version, _, _ in rows),
    )


def _create(
    run: Run,
    trainer: Trainer,
    kind: ItemKind,
    items: list[tuple[int, Counted]],
    *,
    size_bytes: int,
    composition: Counter[str],
    staleness: Counter[str],
) -> Batch:
    """Write the batch under the next ordinal and lease its items."""
    ordinal = run.served_steps + 1
    batch = Batch.objects.create(
        run=run,
        kind=kind,
        ordinal=ordinal,
        state=BatchState.LEASED,
        epoch=run.epoch,
        policy_step=run.policy_step,
        trainer=trainer,
        fence=0,
        leased_at=Now(),
        lease_expires_at=Now(),
        items=len(items),
        sequences=sum(counted.sequences for _, counted in items),
        size_bytes=size_bytes,
        composition=composition,
        staleness=staleness,
    )
    Run.objects.filter(pk=run.pk).update(served_steps=ordinal)
    if not lease_items(batch, items):
        raise ItemsMoved(f"an item of {batch} left the queue under the run's lock")
    return batch
