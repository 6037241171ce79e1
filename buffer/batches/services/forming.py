"""Form batches of fragments from the queue, from metadata only."""

from typing import Final

from buffer.items.models.items import Batch
from buffer.items.queries.counts import queued_fragments
from buffer.items.services.fragment_batches import BatchFragment, create_batch
from buffer.items.services.tallies import Counted
from buffer.payloads.services.transitions import lease_items
from buffer.replay.services.sampling import form_of_sample
from runs.config.rules.replay_config import replay_of
from runs.lifecycle.models.runs import Run, Trainer
from web import database

_OLDEST: Final = """
    SELECT id, version_min, environment, size_bytes FROM buffer_fragmentchunk
    WHERE run_id = %s AND epoch = %s AND state = 'queued' ORDER BY id LIMIT %s"""


class ItemsMoved(RuntimeError):
    """Queued items of a run were moved without its lock."""


def form_and_lease(
    run: Run, trainer: Trainer, *, sender: str, count: int | None = None
) -> Batch | None:
    """Form and lease the next batch of fragments; return None if the queue does not fill one.

    The caller holds the run's lock.
    """
    size = count or run.batch_size
    if size is None:
        return None
    if replay_of(run.config).is_queue:
        return _form_of_fragments(run, trainer, size, sender=sender)
    return form_of_sample(run, trainer, size, sender=sender)


def _form_of_fragments(run: Run, trainer: Trainer, count: int, *, sender: str) -> Batch | None:
    if queued_fragments(run.pk, run.epoch) < count:
        return None
    with database.cursor() as cursor:
        rows = cursor.execute(_OLDEST, [run.pk, run.epoch, count], prepare=True).fetchall()
    if len(rows) < count:
        return None
    members = [BatchFragment(version, environment, size) for _, version, environment, size in rows]
    batch = create_batch(run, trainer, members, sender=sender)
    items = [(item_id, Counted(run.epoch, None, 1)) for item_id, _, _, _ in rows]
    if not lease_items(batch, items):
        raise ItemsMoved(f"an item of {batch} left the queue under the run's lock")
    return batch
