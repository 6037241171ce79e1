"""The fraction of the time in which a trainer held no batch."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buffer.batches.rules.pacing import mean_versions, waiting_share, window_seconds

SECONDS = st.floats(0, 100)
SPANS = st.lists(st.tuples(SECONDS, SECONDS).map(sorted).map(tuple), max_size=20)


@pytest.mark.parametrize(
    ("held", "share"),
    [
        ([], 1.0),
        ([(0, 10)], 0.0),
        ([(0, 2), (8, 10)], 0.6),
        pytest.param([(0, 6), (4, 8)], 0.2, id="the next batch is fetched while one is trained on"),
        pytest.param([(-5, 3), (9, 30)], 0.6, id="only what lies within counts"),
    ],
)
def test_a_trainer_waits_while_it_has_no_batch(
    held: list[tuple[float, float]], share: float
) -> None:
    assert waiting_share(held, since=0, until=10) == pytest.approx(share)


def test_an_empty_period_has_no_shares() -> None:
    assert waiting_share([(0, 1)], since=5, until=5) is None


@given(spans=SPANS)
def test_the_wait_is_the_share_of_time_that_no_span_covers(
    spans: list[tuple[float, float]],
) -> None:
    share = waiting_share(spans, since=20, until=80)

    edges = sorted({20.0, 80.0, *(edge for span in spans for edge in span if 20 < edge < 80)})
    open_seconds = sum(
        after - before
        for before, after in pairwise(edges)
        if not any(began <= before and after <= ended for began, ended in spans)
    )
    assert share == pytest.approx(open_seconds / 60, abs=1e-9)


def test_versions_behind_are_weighted_by_items() -> None:
    assert mean_versions([{"0": 3, "1": 1}, {"2": 4, "unknown": 9}]) == pytest.approx(9 / 8)
    assert mean_versions([{}, {"unknown": 1}]) is None


@pytest.mark.parametrize(
    ("leases", "seconds"),
    [
        ([], 60),
        ([[950.0]], 60),
        ([[900.0, 930.0, 960.0]], 60),
        ([[810.0, 900.0, 990.0]], 180),
        pytest.param([[900.0, 900.0], [880.0, 960.0]], 160, id="the slowest trainer counts"),
        pytest.param([[600.0, 690.0]], 60, id="a trainer that missed two cycles does not"),
        pytest.param([[0.0, 999.0]], 600, id="at most ten minutes"),
    ],
)
def test_window_covers_two_cycles_of_a_slow_trainer(
    leases: list[list[float]], seconds: float
) -> None:
    starts = [(trainer, at) for trainer, times in enumerate(leases) for at in times]

    assert window_seconds(starts, now=1000.0) == seconds
