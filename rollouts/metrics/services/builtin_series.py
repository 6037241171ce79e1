"""Storage of the platform's own measurements as series of a run."""

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime

from rollouts.metrics.services.metrics import OWN_PREFIX, Figure, InvalidMetrics, store_figures
from runs.lifecycle.models.runs import Run
from runs.lifecycle.rules.versions import version_in_force

logger = logging.getLogger(__name__)


def store_builtin(run: Run, values: Mapping[str, float | None], *, now: datetime) -> None:
    """Store values under the platform's prefix, at the current train step; None is not stored."""
    version = version_in_force(
        epoch=run.epoch, policy_step=run.policy_step, served_steps=run.served_steps
    )
    figures = [
        Figure(OWN_PREFIX + name, max(0, version.step), float(value))
        for name, value in values.items()
        if value is not None
    ]
    store_or_warn(run, figures, now=now)


def store_or_warn(run: Run, figures: Sequence[Figure], *, now: datetime) -> None:
    """Store values; log a warning if the run has too many names."""
    try:
        store_figures(run_id=run.pk, figures=figures, now=now)
    except InvalidMetrics as full:
        logger.warning("measurements of run %s not stored: %s", run.name, full.message)
