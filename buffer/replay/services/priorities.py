"""Sampling priorities of fragments, set by trainers."""

from typing import Final
from uuid import UUID

from django.db import connection, transaction

from buffer.items.models.items import Batch
from buffer.items.rules.batches import BatchNotFound
from buffer.items.services.locks import lock_run

# A chunk is sampled by the priority of its head, which gets the highest priority of its fragments.
_UPDATE: Final = """
    UPDATE buffer_fragmentchunk f SET priority = updates.priority
    FROM (
        SELECT COALESCE(m.chunk, m.id) AS head, max(u.priority) AS priority
        FROM unnest(%(ids)s::bigint[], %(priorities)s::float8[]) AS u(id, priority)
        JOIN buffer_fragmentchunk m ON m.id = u.id AND m.run_id = %(run)s
        WHERE %(batch)s::uuid IS NULL OR EXISTS (
            SELECT FROM buffer_batchuse b WHERE b.batch_id = %(batch)s AND b.item_id = m.id
        )
        GROUP BY head
    ) updates
    WHERE f.id = updates.head AND f.state IN ('queued', 'leased')"""


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
            _UPDATE,
            {
                "run": run_id,
                "batch": batch_id,
                "ids": list(priorities),
                "priorities": [float(priority) for priority in priorities.values()],
            },
        )
        updated: int = cursor.rowcount
    return updated
