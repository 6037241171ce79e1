"""Measure a run at a given second, and read the resulting series."""

from datetime import datetime, timedelta

from rollouts.metrics.models import MetricSample
from rollouts.metrics.services.measuring import measure_run
from runs.lifecycle.models import Run
from tests.factories import NOON


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def measure(run: Run, seconds: float) -> bool:
    return measure_run(run_id=run.pk, now=at(seconds))


def series(run: Run) -> dict[str, list[float]]:
    """Return the values of each series in order, without the platform's prefix."""
    values: dict[str, list[float]] = {}
    rows = MetricSample.objects.filter(run=run).order_by("id")
    for name, value in rows.values_list("series__name", "value"):
        assert name.startswith("rolldeck/")
        values.setdefault(name.removeprefix("rolldeck/"), []).append(value)
    return values


def last(run: Run) -> dict[str, float]:
    """Return the values of the newest measurement."""
    newest = MetricSample.objects.filter(run=run).latest("id").at
    rows = MetricSample.objects.filter(run=run, at=newest)
    return {
        name.removeprefix("rolldeck/"): value
        for name, value in rows.values_list("series__name", "value")
    }
