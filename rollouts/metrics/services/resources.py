"""Periodic measurement of the resources of fleets, stored as chart series.

The values are those of the workers' last reports, so a measurement costs a fleet nothing. Fleets
are measured while they report, also without rollouts: a worker may leak memory while it waits.
"""

import logging
from datetime import datetime
from typing import Final

from rollouts.metrics.queries.metrics import Sample
from rollouts.metrics.queries.resources import (
    FleetUsage,
    fleet_usages,
    newest_of,
    runs_with_fleets,
)
from rollouts.metrics.rules.resources import WORKERS, resource_values
from rollouts.metrics.services.builtin_series import store_builtin
from rollouts.metrics.services.measuring import LEAST
from rollouts.metrics.services.metrics import OWN_PREFIX
from runs.lifecycle.models.runs import Run

logger = logging.getLogger(__name__)

_NOTHING: Final = FleetUsage()


def measure_resources(*, now: datetime, only_run: int | None = None) -> int:
    """Store the present usage of every fleet that reports; return the number of runs stored.

    A fleet that has stopped reporting gets one sample of 0 workers, after which its charts have a
    gap.

    Args:
        now: Present time.
        only_run: Id of a single run to measure; None for all.
    """
    found = runs_with_fleets(now=now)
    runs = {run.pk: run for run in found if only_run in (None, run.pk)}
    newest = newest_of(runs, name=OWN_PREFIX + WORKERS)
    usages = fleet_usages(runs, now=now)
    due = [run for run in runs.values() if _is_due(usages.get(run.pk), newest.get(run.pk), now)]
    return sum(_is_stored(run, usages.get(run.pk, _NOTHING), now=now) for run in due)


def _is_due(usage: FleetUsage | None, newest: Sample | None, now: datetime) -> bool:
    """Return whether a fleet was not just measured, and has changed from or to no workers."""
    if newest is None:
        return usage is not None
    # Beats may be early or duplicated.
    return newest.at <= now - LEAST and (usage is not None or newest.value > 0)


def _is_stored(run: Run, usage: FleetUsage, *, now: datetime) -> bool:
    values = resource_values(usage.workers, usage.sums, usage.single)
    try:
        store_builtin(run, values, now=now)
    except Exception:
        logger.exception("resources of run %d not measured", run.pk)
        return False
    return True
