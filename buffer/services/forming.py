"""Form a batch of fragments from what is queued, from metadata only."""

from collections import Counter

from django.db.models.functions import Now

from buffer import selectors
from buffer.core.fates import BatchState, Fate, ItemKind
from buffer.models import Batch, FragmentChunk
from buffer.services.items import lease_items
from buffer.services.tallies import Counted
from runs.models import Run, Trainer


class ItemsMoved(RuntimeError):
    """Somebody moved queued items of a run without holding its lock."""


def form(run: Run, trainer: Trainer, *, count: int | None = None) -> Batch | None:
    """Return the next batch of fragments, its items leased, or None when there is no whole one.

    The caller holds the run's lock and writes the lease.
    """
    size = count or run.batch_size
    return None if size is None else _form_of_fragments(run, trainer, size)


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
