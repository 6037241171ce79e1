"""Sampling priorities of fragments, set by trainers."""

from typing import Final
from uuid import UUID

from django.db import connection, transaction

from buffer.items.models.items import Batch
from buffer.items.rules.batches import BatchNotFound
from buffer.items.services.locks import lock_run
from web.sql import statements_of

SQL: Final = statements_of("buffer")


@transaction.atomic
def update_priorities(
    *, run_id: int, priorities: dict[int, float], batch_id: UUID | None = None
) -> int:
    """Set priorities by fragment id; return the number of updated chunks.

    Fragments of other runs, of batches other than `batch_id`, and fragments that can no longer be
    sampled are skipped.

    Args:
        run_id: The run.
        priorities: Priorities greater than 0; a chunk gets the highest of its fragments.
        batch_id: Batch that delivered the fragments, or None for any.

    Raises:
        BatchNotFound: If the run has no such batch.
    """
    if batch_id and not Batch.objects.filter(run_id=run_id, pk=batch_id).exists():
        raise BatchNotFound(f"batch {batch_id} does not exist")
    # Rows are written in any order here and when forming batches: the lock prevents deadlocks.
    lock_run(run_id)
    with connection.cursor() as cursor:
        cursor.execute(
            SQL["update_priorities"],
            {
                "run": run_id,
                "batch": batch_id,
                "ids": list(priorities),
                "priorities": [float(priority) for priority in priorities.values()],
            },
        )
        updated: int = cursor.rowcount
    return updated
