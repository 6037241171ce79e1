"""Batches leased in a period, found without scanning all batches."""

from bisect import bisect_right
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from buffer.items.models.items import Batch

BATCHES_SHOWN: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class NearbyBatches:
    """Batches of a period."""

    handed_out: int
    """Number of batches leased in the period."""
    batches: list[Batch]
    """The newest of these batches and the last one before the period, newest first."""


def nearby_batches(run_id: int, *, began_at: datetime, ended_at: datetime) -> NearbyBatches:
    """Return the batches leased from `began_at` to `ended_at`, and the last one before.

    Ordinals count batches in the order of their first lease, so a binary search finds a time among
    millions of batches. A batch that was leased again keeps its ordinal.
    """
    of_run = Batch.objects.filter(run_id=run_id)
    newest = of_run.order_by("-ordinal").values_list("ordinal", flat=True).first() or 0
    before = _last_by(run_id, began_at, newest=newest)
    last = _last_by(run_id, ended_at, newest=newest)
    first = max(1, before, last - BATCHES_SHOWN + 1)
    found = of_run.filter(ordinal__gte=first, ordinal__lte=last).select_related("trainer")
    return NearbyBatches(handed_out=last - before, batches=list(found.order_by("-ordinal")))


def _last_by(run_id: int, moment: datetime, *, newest: int) -> int:
    """Return the ordinal of the last batch leased up to `moment`; 0 if there is none."""

    def leased_at(ordinal: int) -> datetime:
        rows = Batch.objects.filter(run_id=run_id, ordinal__gte=ordinal).order_by("ordinal")
        return rows.values_list("leased_at", flat=True)[0]

    return bisect_right(range(1, newest + 1), moment, key=leased_at)
