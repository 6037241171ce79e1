"""Form chunks from the fragments of an environment slot as they arrive."""

from collections.abc import Iterable
from typing import Final

from django.db import connection

from buffer.ingest.rules.chunking import WaitingFragment, cut
from buffer.items.models.items import FragmentChunk
from buffer.items.rules.states import DropReason, ItemState
from buffer.items.services.locks import lock_slots
from buffer.items.services.tallies import Changes, Counted, counted
from buffer.payloads.services.eviction import evict
from runs.lifecycle.models.runs import Run

_QUEUE: Final = """
    UPDATE buffer_fragmentchunk f SET state = 'queued', chunk = whole.chunk
    FROM unnest(%s::bigint[], %s::bigint[]) AS whole(id, chunk)
    WHERE f.id = whole.id AND f.state = 'waiting'
    RETURNING f.epoch, f.size_bytes, f.environment"""


def queue_whole_chunks(run: Run, slots: Iterable[str], *, length: int, changes: Changes) -> int:
    """Queue complete chunks of slots, and drop fragments that can never be part of one.

    The caller has stored the new fragments as waiting. Returns the number of fragments queued.
    """
    affected = set(slots)
    # After writing the new rows, so that the second of two concurrent pushes sees all rows.
    lock_slots(run.pk, affected)
    waiting: dict[str, list[WaitingFragment]] = {}
    rows = FragmentChunk.objects.filter(
        run=run, epoch=run.epoch, slot__in=affected, state=ItemState.WAITING
    ).values_list("slot", "id", "number", "contiguous")
    for slot, item_id, number, contiguous in rows:
        fragment = WaitingFragment(id=item_id, number=number, contiguous=contiguous)
        waiting.setdefault(slot, []).append(fragment)
    found = [cut(fragments, length=length) for fragments in waiting.values()]
    chunks = [chunk for one in found for chunk in one.chunks]
    queued = _queue(chunks)
    changes.move(queued, ItemState.WAITING, ItemState.QUEUED)
    broken = [item_id for one in found for item_id in one.broken]
    evict(broken, reason=DropReason.INCOMPLETE, states=[ItemState.WAITING], changes=changes)
    return len(queued)


def _queue(chunks: list[list[int]]) -> list[Counted]:
    """Queue fragments; a chunk gets its newest fragment's id, so ids order by completion."""
    if not chunks:
        return []
    heads = [max(chunk) for chunk in chunks for _ in chunk]
    with connection.cursor() as cursor:
        cursor.execute(_QUEUE, [[item_id for chunk in chunks for item_id in chunk], heads])
        return [counted(*row) for row in cursor.fetchall()]
