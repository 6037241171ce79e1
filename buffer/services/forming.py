"""Form a batch of fragments from what is queued, from metadata only."""

from buffer import selectors
from buffer.core.fates import Fate
from buffer.models import Batch, FragmentChunk
from buffer.services.fragment_batches import Member, create_batch
from buffer.services.items import lease_items
from buffer.services.sampling import form_of_sample
from buffer.services.tallies import Counted
from runs.core.replay_config import replay_of
from runs.models import Run, Trainer


class ItemsMoved(RuntimeError):
    """Somebody moved queued items of a run without holding its lock."""


def form(run: Run, trainer: Trainer, *, count: int | None = None) -> Batch | None:
    """Return the next batch of fragments, its items leased, or None when there is no whole one.

    The caller holds the run's lock and writes the lease.
    """
    size = count or run.batch_size
    if size is None:
        return None
    if replay_of(run.config).is_queue:
        return _form_of_fragments(run, trainer, size)
    return form_of_sample(run, trainer, size)


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
    members = [Member(version, environment, size) for _, version, environment, size in rows]
    batch = create_batch(run, trainer, members)
    items = [(item_id, Counted(run.epoch, None, 1)) for item_id, _, _, _ in rows]
    if not lease_items(batch, items):
        raise ItemsMoved(f"an item of {batch} left the queue under the run's lock")
    return batch
