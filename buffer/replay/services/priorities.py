"""Take the priorities that a trainer gives to fragments it has seen."""

from typing import Final
from uuid import UUID

from django.db import connection, transaction

from buffer.batches.services.leases import BatchNotFound
from buffer.items.models.items import Batch
from buffer.items.services.locks import lock_run

# A chunk is sampled by the priority of the fragment that completed it; the greatest one counts.
_UPDATE: Final = """
    UPDATE buffer_fragmentchunk f SET priority = wanted.priority
    FROM (
        SELECT COALESCE(m.chunk, m.id) AS head, max(u.priority) AS priority
        FROM unnest(%(ids)s::bigint[], %(priorities)s::float8[]) AS u(id, priority)
        JOIN buffer_fragmentchunk m ON m.id = u.id AND m.run_id = %(run)s
        WHERE %(batch)s::uuid IS NULL OR EXISTS (
            SELECT FROM buffer_batchuse b WHERE b.batch_id = %(batch)s AND b.item_id = m.id
        )
        GROUP BY head
    ) wanted
    WHERE f.id = wanted.head AND f.state IN ('queued', 'leased')"""


@transaction.atomic
def update_priorities(
    *, run_id: int, priorities: dict[int, float], batch_id: UUID | None = None
) -> int:
    """Set priorities by fragment id; return how many chunks have a new one.

    Fragments of other runs, or of other batches than `batch_id`, and those that cannot be sampled
    any more are passed over.

    Args:
        run_id: The run.
        priorities: Greater than 0. Of several for one chunk the greatest counts.
        batch_id: Of the batch that the fragments came in, or None for any.

    Raises:
        BatchNotFound: If the run has no such batch.
    """
    if batch_id and not Batch.objects.filter(run_id=run_id, pk=batch_id).exists():
        raise BatchNotFound(f"there is no batch {batch_id}")
    # Rows are written in any order, and so is a batch: they must not meet.
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
