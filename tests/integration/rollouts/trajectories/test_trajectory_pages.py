"""Pages of a search that reads a bounded number of rows of each run."""

from typing import Any, Final

import pytest

from buffer.inspect.queries.group_lists import GroupPage, group_page
from buffer.inspect.queries.samples import SampledRun
from buffer.inspect.rules.sample_filter import SampleFilter, SampleKind, parse_samples
from buffer.inspect.schemas import SampleRow
from rollouts.trajectories.queries import episode_page
from runs.lifecycle.models import Run
from tests.api.rollouts.episodes.test_episode_distributions import report, write
from tests.api.rollouts.trajectories.test_trajectory_search import conversation, outside
from tests.factories import NOON, make_run

pytestmark = pytest.mark.django_db(transaction=True)
EACH: Final = 2
NOW: Final = NOON


@pytest.fixture
def runs() -> list[int]:
    """Eight groups of mean scores 0 to 7 in one run, one of 2.5 in another."""
    groups = [conversation(f"Number {number}?", float(number)) for number in range(8)]
    return [
        outside("dense", *groups).pk,
        outside("rare", conversation("Number rare?", 2.5), environment="colours").pk,
    ]


def found(runs: list[int], wanted: SampleFilter, **page: Any) -> GroupPage:
    return group_page(runs, wanted, now=NOW, **page)


def episodes(run: int, wanted: SampleFilter, **page: Any) -> tuple[list[SampleRow], Any, bool]:
    runs = {run: SampledRun(id=run, uid=f"run_{run}", address=str(run), project=None)}
    return episode_page(runs, wanted, now=NOW, **{"after": None, **page})


def scores(rows: list[SampleRow]) -> list[float | None]:
    return [row.score for row in rows]


def pages(runs: list[int], wanted: SampleFilter) -> tuple[list[float | None], int]:
    """Return the scores of all pages, and the number of partial ones."""
    means: list[float | None] = []
    partial, after = 0, None
    while True:
        page = found(runs, wanted, limit=1, after=after, examined=EACH * len(runs))
        means += [row.score_mean for row in page.rows]
        partial += page.is_partial
        after = page.next
        if after is None:
            return means, partial


@pytest.mark.parametrize("sort", ["", "arrived", "score", "-score", "length", "-length"])
def test_a_rare_match_is_found_after_partial_pages(runs: list[int], sort: str) -> None:
    means, partial = pages(runs, parse_samples("env~colours", sort=sort))

    assert means == [2.5]
    assert partial > 1


@pytest.mark.parametrize("sort", ["", "arrived", "score", "-score", "length", "-length"])
def test_partial_pages_lose_no_group_and_keep_the_order(runs: list[int], sort: str) -> None:
    wanted = parse_samples("arrived>=2000-01-01", sort=sort)
    whole = found(runs, wanted, limit=50)

    assert not whole.is_partial
    assert len(whole.rows) == 9
    assert pages(runs, wanted)[0] == [row.score_mean for row in whole.rows]


def test_a_list_by_another_column_covers_the_newest_groups_and_is_marked_partial(
    runs: list[int],
) -> None:
    wanted = parse_samples(sort="version")
    first = found(runs[:1], wanted, limit=3, examined=1)
    last = found(runs[:1], wanted, limit=3, examined=1, after=first.next)

    assert [row.score_mean for row in first.rows + last.rows] == [4.0, 5.0, 6.0, 7.0]
    assert (last.is_partial, last.next) == (True, None)


def test_older_episodes_follow_partial_pages() -> None:
    run: Run = make_run(name="pole")
    for number in range(6):
        environment = "maze" if number == 0 else "pole"
        ids = {"incarnation": "a", "slots": [0] * 4, "numbers": [number + 1] * 4}
        write(report(run, float(number), environment=environment, **ids))
    wanted = parse_samples("env:maze", kind=SampleKind.EPISODE)
    first, after, is_partial = episodes(run.pk, wanted, limit=1, examined=EACH)
    rows = list(first)
    while after is not None:
        page, after, _ = episodes(run.pk, wanted, limit=1, after=after, examined=EACH)
        rows += page

    assert is_partial
    assert first == []
    assert scores(rows) == [0.0]


def test_a_list_by_return_covers_the_newest_reports_and_is_marked_partial() -> None:
    run = make_run(name="pole")
    for number in range(6):
        ids = {"incarnation": "a", "slots": [0] * 4, "numbers": [number + 1] * 4}
        write(report(run, float(number), **ids))
    wanted = parse_samples(kind=SampleKind.EPISODE, sort="score")

    rows, _, is_partial = episodes(run.pk, wanted, limit=1, examined=3)
    assert (scores(rows), is_partial) == ([3.0], False)
    rows, _, is_partial = episodes(run.pk, wanted, limit=50, examined=3)
    assert (scores(rows), is_partial) == ([0.0, 1.0, 2.0, 3.0, 4.0, 5.0], False)
