"""Scores of outside runs in lists: as in the curve, with their source, and sortable."""

import pytest

from buffer.ingest.schemas.groups_json import decode_group
from buffer.ingest.services.pushes import accept_groups
from rollouts.control.models import Fleet
from runs.lifecycle.models import Run
from runs.search.queries import lists
from runs.search.queries.lists import active_run_rows, run_activity
from tests.buffer_factories import body, group
from tests.factories import NOON, make_outside_run, make_run
from tests.integration.rollouts.metrics.measured_series import at, measure, series
from tests.list_pages import page_after

pytestmark = pytest.mark.django_db(transaction=True)


def push(run: Run, *means: float, seconds: float = 0) -> None:
    groups = [decode_group(body(group(scores=[mean - 1, mean + 1]))) for mean in means]
    accept_groups(run=run, groups=groups, producer="tests", now=at(seconds))


def test_the_score_of_an_outside_run_is_the_last_point_of_its_curve() -> None:
    run = make_outside_run(name="pushed")
    assert (run_activity([run.pk])[run.pk].return_mean, run_activity([run.pk])[run.pk].returns) == (
        None,
        [],
    )

    for number, means in enumerate([(0.0, 1.0), (2.0,), (3.0, 4.0)]):
        push(run, *means, seconds=10 * number)
        measure(run, 10 * number + 1)
    measure(run, 31)

    found = run_activity([run.pk])[run.pk]
    assert (found.return_mean, found.return_source) == (3.5, "scores")
    assert found.returns == series(run)["reward/mean"] == [0.5, 2.0, 3.5]
    (row,) = active_run_rows()
    assert (row.return_mean, row.return_source, row.returns) == (3.5, "scores", found.returns)


def test_runs_are_sorted_by_score_or_return_and_unknown_ones_are_last() -> None:
    for name, mean in [("a", -5.0), ("b", 0.25), ("c", 7.0)]:
        run = make_outside_run(name=name)
        push(run, mean)
        measure(run, 1)
    for name, returns in [("d", [-9.0, -7.0]), ("e", [3.0] * 20), ("f", [])]:
        Fleet.objects.create(run=make_run(name=name), recent_returns=returns)
    make_outside_run(name="g")

    def names(sort: str) -> list[str]:
        found, cursor = [], None
        while True:
            request = page_after(cursor, lists.position_kind(sort), limit=2)
            page = lists.run_page(request, text="", sort=sort, now=NOON)
            found += [row.name for row in page.results]
            if (cursor := page.next) is None:
                return found

    assert names("-return") == ["c", "e", "b", "a", "d", "g", "f"]
    assert names("return") == ["d", "a", "b", "e", "c", "f", "g"]
