"""Run lists show the rate and staleness of data from built-in measurements."""

from datetime import datetime, timedelta

import pytest

from rollouts.diagnosis.queries.run_activity import ingest_activity
from rollouts.metrics.models import MeasureCursor
from runs.lifecycle.models import Run
from runs.search.queries import lists
from tests.factories import NOON, make_run
from tests.list_pages import page_after

pytestmark = pytest.mark.django_db
LATER = NOON + timedelta(minutes=5)


def measured(
    run: Run, *, at: datetime = NOON, rate: float | None = None, staleness: float | None = None
) -> None:
    MeasureCursor.objects.create(
        run=run, measured_at=at, accepted_per_second=rate, staleness_p50=staleness
    )


def listed(
    sort: str, *, cursor: str | None = None, limit: int = 10
) -> tuple[list[str], str | None]:
    request = page_after(cursor, lists.position_kind(sort), limit=limit)
    page = lists.run_page(request, text="", sort=sort, now=LATER)
    return [row.name for row in page.results], page.next


def test_the_last_measurement_is_shown_with_its_time() -> None:
    run, other = make_run(name="alpha"), make_run(name="beta")
    measured(run, rate=2.5, staleness=1.0)

    activity = ingest_activity([run.pk, other.pk], now=NOON)

    assert activity == {
        run.pk: {"measured_at": NOON, "accepted_per_second": 2.5, "staleness_p50": 1.0}
    }


def test_an_old_rate_is_unknown_and_an_idle_run_has_none() -> None:
    stalled, resting = make_run(name="alpha"), make_run(name="beta")
    measured(stalled, rate=2.5, staleness=1.0)
    measured(resting, rate=0.0)

    activity = ingest_activity([stalled.pk, resting.pk], now=LATER)

    assert activity[stalled.pk] == {"measured_at": NOON, "staleness_p50": 1.0}
    assert activity[resting.pk]["accepted_per_second"] == 0.0


def test_lists_sort_by_the_rate_and_the_staleness_that_they_show() -> None:
    rates = {"slow": (0.25, 3.0), "quick": (1e9 / 3, 0.5), "rests": (0.0, None)}
    for name, (rate, staleness) in rates.items():
        measured(make_run(name=name), at=LATER, rate=rate, staleness=staleness)
    measured(make_run(name="stalled"), at=NOON, rate=7.0, staleness=1.0)
    make_run(name="never")

    assert listed("-rate")[0][:3] == ["quick", "slow", "rests"]
    assert listed("rate")[0][:3] == ["rests", "slow", "quick"]
    assert listed("-staleness")[0][:3] == ["slow", "stalled", "quick"]


@pytest.mark.parametrize("sort", ["rate", "-rate", "staleness", "-staleness"])
def test_pages_sorted_by_measurements_contain_every_run_once(sort: str) -> None:
    for number in range(9):
        run = make_run(name=f"run-{number}")
        if number % 4:
            # A third has no exact decimal form: cursors must reproduce the same number.
            measured(run, at=LATER, rate=number % 3 / 3, staleness=number % 3 / 7)
    whole, _ = listed(sort)

    pages: list[str] = []
    names, cursor = listed(sort, limit=2)
    pages += names
    while cursor is not None:
        names, cursor = listed(sort, cursor=cursor, limit=2)
        pages += names

    assert len(whole) == 9
    assert pages == whole
