"""Downsampled chart lines keep every visible feature, and measures of a run are exact."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from rollouts.metrics.rules import (
    BLOCK_SAMPLES,
    Line,
    at_rank,
    began_at,
    blocks_of,
    condensed,
    summarised,
)

PLACES = st.one_of(st.integers(0, 40), st.integers(0, 2**62))
VALUES = st.one_of(
    st.floats(-1e6, 1e6), st.sampled_from([np.nan, np.inf, -np.inf, 1e308, -1e308, 0.0])
)
SAMPLES = st.lists(st.tuples(PLACES, VALUES), min_size=1, max_size=150)
Samples = list[tuple[int, float]]


def columns(samples: Samples) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    x, values = zip(*samples, strict=True)
    return np.array(x, np.int64), np.array(values, np.float64)


def of_samples(samples: Samples, at_most: int) -> Line:
    return condensed(blocks_of(*columns(samples)), at_most=at_most)


def of_chunks(samples: Samples, at_most: int) -> Line:
    """Downsample as the server does: chunks are summarized first, each separately."""
    cut = [samples[i : i + 70] for i in range(0, len(samples), 70)]
    return condensed(np.concatenate([summarised(*columns(c)) for c in cut]), at_most=at_most)


@pytest.mark.parametrize("way", [of_samples, of_chunks])
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(samples=SAMPLES, at_most=st.integers(1, 50))
def test_every_value_is_within_the_band_at_its_position(
    way: object, samples: Samples, at_most: int
) -> None:
    blocks = way(samples, at_most).blocks  # type: ignore[operator]

    for x, value in samples:
        here = blocks[(blocks["x_first"] <= x) & (x <= blocks["x_last"])]
        assert len(here)
        if np.isfinite(value):
            assert np.any((here["min"] <= value) & (value <= here["max"]))


@pytest.mark.parametrize("way", [of_samples, of_chunks])
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(samples=SAMPLES, at_most=st.integers(1, 50))
def test_extremes_counts_and_ends_survive_and_nothing_is_counted_twice(
    way: object, samples: Samples, at_most: int
) -> None:
    x, values = columns(samples)
    finite = values[np.isfinite(values)]
    line: Line = way(samples, at_most)  # type: ignore[operator]
    blocks = line.blocks

    assert len(blocks) <= at_most
    assert np.all(np.diff(blocks["x_first"]) > 0)
    assert (blocks["x_first"].min(), blocks["x_last"].max()) == (x.min(), x.max())
    assert blocks["count"].sum() == len(finite)
    assert blocks["nans"].sum() == np.isnan(values).sum()
    assert blocks["infinities"].sum() == np.isinf(values).sum()
    if len(finite):
        assert np.nanmin(blocks["min"]) == finite.min()
        assert np.nanmax(blocks["max"]) == finite.max()
    newest = max(range(len(x)), key=lambda i: (x[i], i))
    end = blocks[np.flatnonzero(blocks["x_last"] == x.max())[-1]]
    np.testing.assert_equal(end["last"], values[newest])


def test_few_samples_are_returned_without_buckets() -> None:
    line = of_samples([(0, 1.0), (1, 2.0), (2**60, 3.0)], at_most=3)

    assert line.width == 1
    assert line.blocks["last"].tolist() == [1.0, 2.0, 3.0]


def test_the_last_of_several_samples_at_one_step_is_the_latest() -> None:
    line = of_samples([(5, 1.0), (5, 9.0), (4, 0.0), (5, 2.0)], at_most=10)

    assert line.blocks["x_first"].tolist() == [4, 5]
    assert line.blocks["last"].tolist() == [0.0, 2.0]
    assert line.blocks["max"].tolist() == [0.0, 9.0]


def test_bucket_borders_are_stable_while_a_line_grows() -> None:
    short = of_samples([(i, float(i)) for i in range(1000)], at_most=300)
    longer = of_samples([(i, float(i)) for i in range(1010)], at_most=300)

    assert (short.width, longer.width) == (4, 4)
    assert short.blocks.tolist() == longer.blocks[:250].tolist()


def test_blocks_overlap_after_a_step_back_and_keep_their_values() -> None:
    before = [(i, 1.0) for i in range(100)]
    after = [(i, 2.0) for i in range(50, 150)]

    line = of_chunks(before + after, at_most=10)

    assert line.blocks["count"].sum() == 200
    at_60 = line.blocks[(line.blocks["x_first"] <= 60) & (line.blocks["x_last"] >= 60)]
    assert (at_60["min"].min(), at_60["max"].max()) == (1.0, 2.0)


def test_a_chunk_is_summed_up_in_blocks_of_equal_size() -> None:
    x, values = np.arange(150), np.arange(150.0)

    blocks = summarised(x, values)

    assert BLOCK_SAMPLES == 64
    assert blocks["count"].tolist() == [64, 64, 22]
    assert blocks["sum"].sum() == values.sum()


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
