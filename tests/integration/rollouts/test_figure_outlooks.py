"""Lists of runs say how fast data comes in and how stale it is, from what the deck measured."""

from datetime import datetime, timedelta

import pytest

from rollouts.models import MetricSeries
from rollouts.selectors import figure_outlooks
from rollouts.services.metrics import OWN_PREFIX, Figure, store_figures
from runs.models import Run
from tests.factories import NOON, make_run

pytestmark = pytest.mark.django_db


def measured(run: Run, *, at: datetime = NOON, **figures: float) -> None:
    rows = [
        Figure(OWN_PREFIX + name.replace("__", "/"), 0, value) for name, value in figures.items()
    ]
    store_figures(run_id=run.pk, figures=rows, now=at)


def test_the_last_measurement_counts() -> None:
    run, other = make_run(name="alpha"), make_run(name="beta")
    measured(run, at=NOON - timedelta(seconds=10), accepted_per_second=9.0, staleness__p50=4.0)
    measured(run, accepted_per_second=2.5, staleness__p50=1.0, served_per_second=7.0)

    found = figure_outlooks([run.pk, other.pk], now=NOON)

    assert found == {run.pk: {"accepted_per_second": 2.5, "staleness_p50": 1.0}}


def test_a_rate_that_nobody_measures_any_more_is_not_known_and_rest_is_no_rate() -> None:
    stalled, resting = make_run(name="alpha"), make_run(name="beta")
    measured(stalled, accepted_per_second=2.5, staleness__p50=1.0)
    measured(resting, accepted_per_second=0.0)

    found = figure_outlooks([stalled.pk, resting.pk], now=NOON + timedelta(minutes=5))

    assert found[stalled.pk] == {"staleness_p50": 1.0}
    assert found[resting.pk] == {"accepted_per_second": 0.0}


def test_what_is_packed_counts_too() -> None:
    run = make_run()
    measured(run, accepted_per_second=2.5)
    series = MetricSeries.objects.get(run=run)
    series.samples.all().delete()
    series.packed_value, series.packed_at = 3.5, NOON
    series.save()

    assert figure_outlooks([run.pk], now=NOON) == {run.pk: {"accepted_per_second": 3.5}}
