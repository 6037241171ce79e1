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
from web.sql import filled, statements_of

SQL: Final = statements_of("buffer")

_ADD_USES_BY_KEY: Final = {
    chunked: filled(SQL["add_uses"], key=key) for chunked, key in ((False, "id"), (True, "chunk"))
}
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
    _settle(batch, SQL["confirm_sample"], {"batch": batch.pk, "unsettled": unsettled})


def return_sample(batch: Batch) -> None:
    """Return the uses of a sampled batch; the caller settles the batch."""
    _settle(batch, SQL["return_uses"], {"batch": batch.pk})


def _settle(batch: Batch, query: str, parameters: dict[str, Any]) -> None:
    with database.cursor() as cursor:
        cursor.execute(query.encode(), parameters, prepare=True)
        moved = cursor.fetchall()
    changes = Changes(batch.run_id, ItemKind.FRAGMENTS)
    for source, to, *columns in moved:
        if source != to:
            changes.move([counted(*columns)], ItemState(source), ItemState(to))
    changes.write()
