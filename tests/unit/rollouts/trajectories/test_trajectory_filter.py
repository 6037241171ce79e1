"""Query parameters of the search for trajectories."""

from datetime import UTC, datetime

import pytest

from rollouts.trajectories.queries import rows_of_each
from rollouts.trajectories.rules import (
    InvalidSearch,
    TrajectoryFilter,
    TrajectoryKind,
    TrajectorySort,
    parse_search,
)


def test_an_empty_query_matches_the_newest_groups() -> None:
    search = parse_search({})

    assert search == TrajectoryFilter(kind=TrajectoryKind.GROUP, sort=TrajectorySort.NEWEST)
    assert search.is_open


def test_every_parameter_is_parsed() -> None:
    search = parse_search(
        {
            "kind": "episode",
            "environment": " maze ",
            "score_min": "-1.5",
            "score_max": "2",
            "since": "2026-03-01T12:00:00+02:00",
            "until": "2026-03-02",
            "sort": "score",
        }
    )

    assert search == TrajectoryFilter(
        kind=TrajectoryKind.EPISODE,
        environment="maze",
        least=-1.5,
        most=2.0,
        since=datetime(2026, 3, 1, 10, tzinfo=UTC),
        until=datetime(2026, 3, 2, tzinfo=UTC),
        sort=TrajectorySort.LOWEST,
    )
    assert not search.is_open


def test_an_offset_without_percent_encoding_is_accepted() -> None:
    search = parse_search({"since": "2026-03-01T12:00:00 00:00"})

    assert search.since == datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"kind": "fragment"}, "kind"),
        ({"sort": "worst"}, "sort"),
        ({"q": "x" * 201}, "q"),
        ({"q": "a\x00b"}, "q"),
        ({"q": "word", "kind": "episode"}, "q"),
        ({"environment": "x" * 201}, "environment"),
        ({"score_min": "low"}, "score_min"),
        ({"score_max": "nan"}, "score_max"),
        ({"score_min": "2", "score_max": "1"}, "score_min"),
        ({"since": "yesterday"}, "since"),
        ({"until": "9999-12-31T23:59:59-12:00"}, "until"),
        ({"since": "2026-03-02", "until": "2026-03-01"}, "since"),
    ],
)
def test_an_invalid_parameter_is_named(query: dict[str, str], field: str) -> None:
    with pytest.raises(InvalidSearch) as error:
        parse_search(query)

    assert error.value.field == field


def test_rows_are_divided_among_runs_and_fill_a_page() -> None:
    assert rows_of_each(1, limit=50, rows=1000) == 1000
    assert rows_of_each(10, limit=50, rows=1000) == 100
    assert rows_of_each(500, limit=50, rows=1000) == 51
    assert rows_of_each(0, limit=50, rows=1000) == 1000
