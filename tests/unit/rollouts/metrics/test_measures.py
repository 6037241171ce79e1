"""Calculations of built-in metrics."""

from datetime import UTC, datetime, timedelta

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rollouts.metrics.rules import at_rank, began_at

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
USUAL = timedelta(seconds=10)
counts = st.dictionaries(st.integers(-3, 40), st.integers(0, 50)).filter(lambda c: any(c.values()))


@given(counts, st.sampled_from([0.05, 0.5, 0.95, 1.0]))
def test_a_rank_of_counts_is_that_of_the_items_one_by_one(
    counts: dict[int, int], part: float
) -> None:
    items = np.repeat(list(counts), list(counts.values()))

    assert at_rank(counts, part) == np.percentile(items, 100 * part, method="inverted_cdf")


def test_an_empty_list_has_no_rank() -> None:
    assert at_rank({}, 0.5) is None
    assert at_rank({3: 0}, 0.5) is None


def began(seconds: float, first: float | None, *, was_quiet: bool) -> float:
    """Return the beginning of the window measured at second `seconds`; the last one was at 0."""
    first_at = None if first is None else NOON + timedelta(seconds=first)
    now = NOON + timedelta(seconds=seconds)
    beginning = began_at(NOON, was_quiet=was_quiet, first_at=first_at, now=now, usual=USUAL)
    return (beginning - NOON).total_seconds()


def test_a_window_begins_where_the_last_one_ended() -> None:
    assert began(10, 4, was_quiet=False) == 0
    assert began(3600, 3590, was_quiet=False) == 0


def test_after_an_idle_period_a_burst_has_its_own_window() -> None:
    assert began(3600, None, was_quiet=True) == 3590
    assert began(3600, 3595, was_quiet=True) == 3590
    # Measurements paused for a while despite activity.
    assert began(3600, 3000, was_quiet=True) == 3000
    assert began(8, -50, was_quiet=True) == 0


@given(st.floats(8, 1e6), st.floats(-1e6, 1e6), st.booleans())
def test_a_window_is_never_empty_and_never_overlaps_the_last(
    seconds: float, first: float, was_quiet: bool
) -> None:
    begun = began(seconds, first, was_quiet=was_quiet)

    assert 0 <= begun < seconds
