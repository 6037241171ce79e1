"""Use counts of sampled fragments.

`uses` counts the batches that hold or held a fragment and were not dropped; `confirmed` counts
those that were trained on. A queued fragment may be sampled again; a leased one may not, and waits
for its last open batch.
"""

from typing import Any, Final
from uuid import UUID

from buffer.items.models.items import Batch
from buffer.items.rules.states import UNSETTLED_BATCHES, ItemKind, ItemState
from buffer.items.services.tallies import Changes, counted
from web import database

_CONFIRM: Final = """
    WITH settled AS (
        UPDATE buffer_batch SET state = 'confirmed', settled_at = statement_timestamp()
        WHERE id = %(batch)s AND state = ANY(%(unsettled)s::text[])
    )
    UPDATE buffer_fragmentchunk f SET
        confirmed = f.confirmed + 1,
        state = CASE WHEN f.state = 'leased' AND f.confirmed + 1 = f.uses
            THEN 'served' ELSE f.state END
    FROM buffer_batchuse u JOIN buffer_fragmentchunk o ON o.id = u.item_id
    WHERE u.batch_id = %(batch)s AND f.id = u.item_id
    RETURNING o.state, f.state, f.epoch, f.size_bytes, f.environment"""
_RETURN_USES: Final = """
    UPDATE buffer_fragmentchunk f SET uses = f.uses - 1, state = 'queued'
    FROM buffer_batchuse u JOIN buffer_fragmentchunk o ON o.id = u.item_id
    WHERE u.batch_id = %(batch)s AND f.id = u.item_id
    RETURNING o.state, f.state, f.epoch, f.size_bytes, f.environment"""
_ADD_USES: Final = """
    WITH members AS (
        SELECT f.id, picked.weight, row_number() OVER (ORDER BY picked.place, f.number) - 1 AS place
        FROM unnest(%(ids)s::bigint[], %(weights)s::float8[]) WITH ORDINALITY
            AS picked(id, weight, place)
        JOIN buffer_fragmentchunk f ON f.{key} = picked.id
    ), taken AS (
        UPDATE buffer_fragmentchunk f SET
            uses = f.uses + 1,
            state = CASE WHEN f.uses + 1 >= %(max_reuse)s THEN 'leased' ELSE f.state END
        -- Before the first ANALYZE, the planner expects few queued rows and would scan all of them
        -- for each id. Therefore the ids are an array, and the state expression has no index.
        FROM members WHERE f.id = ANY(ARRAY(SELECT id FROM members)) AND f.id = members.id
            AND COALESCE(f.state, '') = 'queued'
        RETURNING f.id, f.state, f.environment, f.size_bytes,
            members.place, members.weight
    ), noted AS (
        INSERT INTO buffer_batchuse (batch_id, item_id, position, importance_weight)
        SELECT %(batch)s, id, place, weight FROM taken
    )
    SELECT environment, size_bytes, state FROM taken"""
_ADD_USES_BY_KEY: Final = {False: _ADD_USES.format(key="id"), True: _ADD_USES.format(key="chunk")}
# environment, size_bytes, state
UsedRow = tuple[str, int, str]


def add_sampled_chunks(
    batch_id: UUID, ids: list[int], weights: list[float], *, max_reuse: int, chunked: bool
) -> list[UsedRow]:
    """Add sampled chunks to a batch, in order, and return a row per fragment.

    Args:
        batch_id: The batch; its row may be written afterwards.
        ids: Ids of fragments, or of chunks if `chunked`.
        weights: Importance weight of each id.
        max_reuse: Number of uses after which a fragment is no longer sampled.
        chunked: Whether a chunk has several fragments.
    """
    with database.cursor() as cursor:
        cursor.execute(
            _ADD_USES_BY_KEY[chunked],
            {"batch": batch_id, "ids": ids, "weights": weights, "max_reuse": max_reuse},
            prepare=True,
        )
        rows: list[UsedRow] = cursor.fetchall()
    return rows


def confirm_sample(batch: Batch) -> None:
    """Settle a sampled batch as trained on, and acknowledge its uses."""
    unsettled = [str(state) for state in UNSETTLED_BATCHES]
    _settle(batch, _CONFIRM, {"batch": batch.pk, "unsettled": unsettled})


def return_sample(batch: Batch) -> None:
    """Return the uses of a sampled batch; the caller settles the batch."""
    _settle(batch, _RETURN_USES, {"batch": batch.pk})


def _settle(batch: Batch, query: str, parameters: dict[str, Any]) -> None:
    with database.cursor() as cursor:
        cursor.execute(query.encode(), parameters, prepare=True)
        moved = cursor.fetchall()
    changes = Changes(batch.run_id, ItemKind.FRAGMENTS)
    for source, to, *columns in moved:
        if source != to:
            changes.move([counted(*columns)], ItemState(source), ItemState(to))
    changes.write()
