"""Downsampling of series that keeps spikes. numpy only.

A *sample* is one value at a position x: a train step, a time in µs, or an amount of data, always an
integer from 0. A *block* summarizes samples adjacent in x; blocks of blocks are blocks again. A
line of a million samples is drawn from a few thousand blocks, and every value is between `min` and
`max` of its block.

Values that are not finite are counted, never drawn: min, max, sum and count exclude them.
"""

import math
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

BLOCK_SAMPLES: Final = 64
"""Samples per stored block."""
CHUNK_SAMPLES: Final = 1024
"""Maximum samples per stored chunk."""
X_AT_MOST: Final = 2**63 - 1

BLOCK: Final = np.dtype(
    [
        ("x_first", "<i8"),
        ("x_last", "<i8"),
        ("min", "<f8"),  # NaN, as max: no finite value
        ("max", "<f8"),
        ("last", "<f8"),  # of the sample at x_last that came last; may be NaN or infinite
        ("sum", "<f8"),
        ("count", "<u4"),  # finite values
        ("nans", "<u4"),
        ("infinities", "<u4"),
    ]
)
Blocks = NDArray[np.void]


class Line(NamedTuple):
    """A series downsampled for one chart width."""

    blocks: Blocks
    """``[B]``, x_first strictly increasing."""
    width: int
    """Bucket width in units of x; 1: only samples at the same x were combined."""


def blocks_of(x: NDArray[np.int64], values: NDArray[np.float64]) -> Blocks:
    """Return one block for each sample, in the given order.

    Args:
        x: ``[N]``, from 0.
        values: ``[N]``.
    """
    finite = np.isfinite(values)
    blocks = np.empty(len(x), BLOCK)
    blocks["x_first"] = blocks["x_last"] = x
    blocks["min"] = blocks["max"] = np.where(finite, values, np.nan)
    blocks["last"] = values
    blocks["sum"] = np.where(finite, values, 0.0)
    blocks["count"] = finite
    blocks["nans"] = np.isnan(values)
    blocks["infinities"] = np.isinf(values)
    return blocks


def summarised(x: NDArray[np.int64], values: NDArray[np.float64]) -> Blocks:
    """Return the stored blocks of a chunk: 64 samples each, ordered by x.

    Args:
        x: ``[N]`` in the order of arrival, N ≥ 1.
        values: ``[N]``.
    """
    ordered = in_order(blocks_of(x, values))
    return _folded(ordered, np.arange(0, len(ordered), BLOCK_SAMPLES))


def in_order(blocks: Blocks) -> Blocks:
    """Return blocks ordered by their beginning; blocks at the same x keep their order."""
    begins = blocks["x_first"]
    if np.all(begins[1:] >= begins[:-1]):
        return blocks
    return blocks[np.argsort(begins, kind="stable")]


def condensed(blocks: Blocks, *, at_most: int) -> Line:
    """Return a line of at most `at_most` blocks.

    If there are more positions x, they are combined into buckets. The width of a bucket is a power
    of two and its borders are multiples of the width. So a growing line keeps its buckets, and
    zooming in halves them.

    Args:
        blocks: ``[N]``; of blocks at the same x the later one is newer.
        at_most: At least 1.
    """
    if not len(blocks):
        return Line(blocks, 1)
    ordered = in_order(blocks)
    begins = ordered["x_first"]
    shift = 0
    if _changes(begins) > at_most:
        first, last = int(begins[0]), int(begins[-1])
        while (last >> shift) - (first >> shift) + 1 > at_most:
            shift += 1
    buckets = begins >> shift
    starts = np.flatnonzero(np.diff(buckets, prepend=buckets[0] - 1))
    return Line(_folded(ordered, starts), 1 << shift)


def _changes(ordered: NDArray[np.int64]) -> int:
    return 1 + int(np.count_nonzero(ordered[1:] != ordered[:-1]))


def _folded(ordered: Blocks, starts: NDArray[np.intp]) -> Blocks:
    """Return one block for each range that begins at one of `starts`; the first is 0."""
    folded = np.empty(len(starts), BLOCK)
    folded["x_first"] = ordered["x_first"][starts]
    folded["x_last"] = np.maximum.reduceat(ordered["x_last"], starts)
    folded["min"] = np.fmin.reduceat(ordered["min"], starts)
    folded["max"] = np.fmax.reduceat(ordered["max"], starts)
    folded["last"] = ordered["last"][_newest(ordered["x_last"], starts)]
    with np.errstate(over="ignore", invalid="ignore"):
        folded["sum"] = np.add.reduceat(ordered["sum"], starts)
    for name in ("count", "nans", "infinities"):
        folded[name] = np.add.reduceat(ordered[name], starts)
    return folded


def _newest(ends: NDArray[np.int64], starts: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return for each range the member that ends last; on a tie, the last one."""
    ends_of_stretches = np.append(starts[1:], len(ends))
    if np.all(ends[1:] >= ends[:-1]):
        return ends_of_stretches - 1
    stretch = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(ends))))
    newest: NDArray[np.intp] = np.lexsort((ends, stretch))[ends_of_stretches - 1]
    return newest


NonFinite = Literal["NaN", "Infinity", "-Infinity"]


def written(value: float) -> float | NonFinite:
    """Return the number, or its name if JSON cannot represent it."""
    if math.isfinite(value):
        return value
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"
