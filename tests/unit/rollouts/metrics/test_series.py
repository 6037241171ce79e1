"""Downsampling of chart lines keeps every visible feature."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from rollouts.metrics.rules import BLOCK_SAMPLES, Line, blocks_of, condensed, summarised

PLACES = st.one_of(st.integers(0, 40), st.integers(0, 2**62))
VALUES = st.one_of(
    st.floats(-1e6, 1e6),
    st.sampled_from([np.nan, np.inf, -np.inf, 1e308, -1e308, 0.0]),
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
