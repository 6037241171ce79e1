"""Find the batches that were handed out around a moment, without looking through all of them."""

from bisect import bisect_right
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from buffer.items.models.items import Batch

BATCHES_SHOWN: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """The batches of a stretch of time."""

    handed_out: int
    """How many were handed out within it."""
    batches: list[Batch]
    """Of these and the one before them the newest, newest first."""


def batches_around(run_id: int, *, began_at: datetime, ended_at: datetime) -> Around:
    """Return the batches handed out from `began_at` to `ended_at`, and the last one before.

    Ordinals count batches in the order in which they were handed out, so a few probes find the
    place of a moment among millions. A batch that was leased anew stands where it stood first.
    """
    of_run = Batch.objects.filter(run_id=run_id)
    newest = of_run.order_by("-ordinal").values_list("ordinal", flat=True).first() or 0
    before = _last_by(run_id, began_at, newest=newest)
    last = _last_by(run_id, ended_at, newest=newest)
    first = max(1, before, last - BATCHES_SHOWN + 1)
    found = of_run.filter(ordinal__gte=first, ordinal__lte=last).select_related("trainer")
    return Around(handed_out=last - before, batches=list(found.order_by("-ordinal")))


def _last_by(run_id: int, moment: datetime, *, newest: int) -> int:
    """Return the ordinal of the last batch that was handed out by a moment; 0: none was."""

    def leased_at(ordinal: int) -> datetime:
        rows = Batch.objects.filter(run_id=run_id, ordinal__gte=ordinal).order_by("ordinal")
        return rows.values_list("leased_at", flat=True)[0]

    return bisect_right(range(1, newest + 1), moment, key=leased_at)
