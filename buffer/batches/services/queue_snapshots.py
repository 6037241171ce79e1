"""The queue, the ledger and the next batch of a run at one moment."""

from dataclasses import dataclass
from datetime import datetime

from buffer.batches.queries.queues import QueueState, queue_state
from buffer.batches.services.previews import Preview, preview_in_transaction
from buffer.items.queries.counts import ledger_part
from buffer.items.schemas import LedgerPart
from runs.lifecycle.models.runs import Run
from runs.lifecycle.queries.runs import readable_run
from web.snapshots import read_on_snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSnapshot:
    """All figures of a run's queue, from one snapshot of the database."""

    run: Run
    state: QueueState
    ledger: LedgerPart
    next_batch: Preview | None
    """None for runs of fragments, which have no preview."""


def queue_snapshot(name: str, *, now: datetime) -> QueueSnapshot:
    """Return the queue of the run at address `name`."""

    def read() -> QueueSnapshot:
        run = readable_run(name)
        return QueueSnapshot(
            run=run,
            state=queue_state(run, now=now),
            ledger=ledger_part(run.pk),
            next_batch=preview_in_transaction(run) if run.takes_groups else None,
        )

    return read_on_snapshot(read)
