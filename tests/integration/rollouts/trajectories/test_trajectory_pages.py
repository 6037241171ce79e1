"""Pages of a search that reads a bounded number of rows of each run."""

from typing import Any, Final

import pytest

from rollouts.trajectories.queries import SearchedRun, TrajectoryPage, found_trajectories
from rollouts.trajectories.rules import Position, TrajectoryFilter, TrajectoryKind, TrajectorySort
from runs.lifecycle.models import Run
from tests.api.rollouts.episodes.test_episode_distributions import report, write
from tests.api.rollouts.trajectories.test_trajectory_search import conversation, outside
from tests.factories import NOON, make_run

pytestmark = pytest.mark.django_db(transaction=True)
EACH: Final = 2


@pytest.fixture
def runs() -> list[int]:
    """Eight groups of mean scores 0 to 7 in one run, one of 2.5 in another."""
    groups = [conversation(f"Number {number}?", float(number)) for number in range(8)]
    return [
        outside("dense", *groups).pk,
        outside("rare", conversation("Number rare?", 2.5), environment="colours").pk,
    ]


def found(runs: list[int], search: TrajectoryFilter, **page: Any) -> TrajectoryPage:
    searched = {run: SearchedRun(id=run, address=str(run), project=None) for run in runs}
    return found_trajectories(searched, search, **{"after": None, **page})


def pages(runs: list[int], search: TrajectoryFilter) -> tuple[list[str], int]:
    """Return the prompts of all pages, and the number of partial ones."""
    texts: list[str] = []
    partial = 0
    after: Position | None = None
    while True:
        page = found(runs, search, limit=1, after=after, examined=EACH * len(runs))
        texts += [row.excerpt for row in page.rows]
        partial += page.is_partial
        after = page.next
        if after is None:
            return texts, partial


@pytest.mark.parametrize("sort", TrajectorySort)
def test_a_rare_match_is_found_after_partial_pages(runs: list[int], sort: TrajectorySort) -> None:
    texts, partial = pages(runs, TrajectoryFilter(environment="colours", sort=sort))

    assert texts == ["Number rare?"]
    assert partial > 1


@pytest.mark.parametrize("sort", TrajectorySort)
def test_partial_pages_lose_no_group_and_keep_the_order(
    runs: list[int], sort: TrajectorySort
) -> None:
    search = TrajectoryFilter(since=NOON.replace(year=2000), sort=sort)
    whole = found(runs, search, limit=50)

    assert not whole.is_partial
    assert len(whole.rows) == 9
    assert pages(runs, search)[0] == [row.excerpt for row in whole.rows]


def test_older_episodes_follow_partial_pages() -> None:
    run: Run = make_run(name="pole")
    for number in range(6):
        environment = "maze" if number == 0 else "pole"
        ids = {"incarnation": "a", "slots": [0] * 4, "numbers": [number + 1] * 4}
        write(report(run, float(number), environment=environment, **ids))
    search = TrajectoryFilter(kind=TrajectoryKind.EPISODE, environment="maze")
    first = found([run.pk], search, limit=1, examined=EACH)
    rows = list(first.rows)
    after = first.next
    while after is not None:
        page = found([run.pk], search, limit=1, after=after, examined=EACH)
        rows += page.rows
        after = page.next

    assert first.is_partial
    assert first.rows == []
    assert [row.score for row in rows] == [0.0]


def test_a_list_by_return_covers_the_newest_reports_and_is_marked_partial() -> None:
    run = make_run(name="pole")
    for number in range(6):
        ids = {"incarnation": "a", "slots": [0] * 4, "numbers": [number + 1] * 4}
        write(report(run, float(number), **ids))
    search = TrajectoryFilter(kind=TrajectoryKind.EPISODE, sort=TrajectorySort.LOWEST)

    page = found([run.pk], search, limit=1, examined=3)
    assert [row.score for row in page.rows] == [3.0]
    assert not page.is_partial
    whole = found([run.pk], search, limit=50, examined=3)
    assert [row.score for row in whole.rows] == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert not whole.is_partial
