"""Queue sizes for lists of runs."""

from collections.abc import Sequence
from typing import Any

from django.db.models import Sum

from buffer.items.models.items import Tally
from buffer.items.rules.states import ItemState


def queue_activity(run_ids: Sequence[int]) -> dict[int, dict[str, Any]]:
    """Return the number of queued sequences or fragments of each run."""
    rows = Tally.objects.filter(run_id__in=run_ids, state=ItemState.QUEUED).values_list("run_id")
    return {
        run_id: {"queued": int(queued or 0)}
        for run_id, queued in rows.annotate(Sum("sequences")).order_by()
    }
