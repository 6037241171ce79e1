"""Downsampled series and measures of a run, without Django.

Downsampling of series that keeps spikes. numpy only.

A *sample* is one value at a position x: a train step, a time in µs, or an amount of data, always an
integer from 0. A *block* summarizes samples adjacent in x; blocks of blocks are blocks again. A
line of a million samples is drawn from a few thousand blocks, and every value is between `min` and
`max` of its block.

Values that are not finite are counted, never drawn: min, max, sum and count exclude them.
"""

import math
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

OWN_PREFIX: Final = "rolldeck/"
"""Prefix of the platform's own metrics."""
OF_ARRIVALS: Final = tuple(
    OWN_PREFIX + name
    for name in ("reward/", "length/", "truncated_share", "zero_variance_share", "info/", "env/")
)
"""Beginnings of the metrics of data that arrived since the previous sample."""


# Values of the platform's built-in metrics of a run, listed in docs/explanation/metrics.md.


def at_rank(counts: Mapping[int, int], part: float) -> int | None:
    """Return the smallest value that `part` of all items do not exceed; None without items.

    Args:
        counts: Items by value.
        part: 0 < part ≤ 1: 0.5 is the median.
    """
    total = sum(counts.values())
    # A floating-point excess, as in 0.95 · 20, does not add an item.
    rank, seen = math.ceil(part * total - 1e-9), 0
    for value in sorted(counts):
        seen += counts[value]
        if seen >= rank and counts[value] > 0:
            return value
    return None


def began_at(
    last_at: datetime,
    *,
    was_quiet: bool,
    first_at: datetime | None,
    now: datetime,
    usual: timedelta,
) -> datetime:
    """Return the beginning of the interval over which rates are computed, up to `now`.

    Args:
        last_at: Time of the previous measurement.
        was_quiet: Whether there was no activity at the previous measurement. Measurements pause
            without activity.
        first_at: Earliest known activity since then, to the second.
        now: Time of the present measurement.
        usual: Usual interval between two measurements.

    Returns:
        The previous measurement, or one usual interval ago after a pause: averaging over the pause
        would hide a burst.
    """
    if not was_quiet:
        return last_at
    usually = now - usual
    return max(last_at, usually if first_at is None else min(usually, first_at))


WORKERS: Final = "resources/workers"
"""Number of measured workers; 0 marks the beginning of a gap in the other series."""
WORKERS_LISTED: Final = 8
"""Maximum number of workers of a fleet with series for each worker."""
_CORE_PERCENT: Final = 100.0
_AGGREGATES: Final = {
    "resources/cpu_cores": "cpu_percent_sum",
    "resources/memory_bytes": "memory_bytes_sum",
    **{f"resources/worker_cpu_cores/{of}": f"cpu_percent_{of}" for of in ("min", "mean", "max")},
    **{
        f"resources/worker_memory_bytes/{of}": f"memory_bytes_{of}" for of in ("min", "mean", "max")
    },
    **{f"resources/gpu_percent/{of}": f"gpu_percent_{of}" for of in ("min", "mean", "max")},
    **{
        f"resources/gpu_memory_bytes/{of}": f"gpu_memory_bytes_{of}"
        for of in ("min", "mean", "max")
    },
}
_SINGLE: Final = {
    "cpu_cores": "cpu_percent",
    "memory_bytes": "memory_bytes",
    "gpu_percent": "gpu_percent",
    "gpu_memory_bytes": "gpu_memory_bytes",
}


def resource_values(
    workers: int, sums: Mapping[str, Any], single: Mapping[int, Mapping[str, Any]]
) -> dict[str, float | None]:
    """Return the values by name, without the platform's prefix; None where not measured.

    `sums` are aggregates over the workers, as ``cpu_percent_sum``; `single` has the fields of
    single workers by index.
    """
    values: dict[str, float | None] = {WORKERS: workers}
    for name, column in _AGGREGATES.items():
        values[name] = _in_unit(column, sums.get(column))
    for index, fields in single.items():
        for name, column in _SINGLE.items():
            values[f"resources/worker/{index}/{name}"] = _in_unit(column, fields[column])
    return values


def _in_unit(column: str, value: float | None) -> float | None:
    """Return a value in the unit of its series: cores instead of percent of one core."""
    return value / _CORE_PERCENT if value is not None and column.startswith("cpu_") else value


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
    positions = 1 + int(np.count_nonzero(begins[1:] != begins[:-1]))
    if positions > at_most:
        first, last = int(begins[0]), int(begins[-1])
        while (last >> shift) - (first >> shift) + 1 > at_most:
            shift += 1
    buckets = begins >> shift
    starts = np.flatnonzero(np.diff(buckets, prepend=buckets[0] - 1))
    return Line(_folded(ordered, starts), 1 << shift)


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


def transfer_figures(
    before: Mapping[str, float], totals: Mapping[str, float]
) -> dict[str, float | None]:
    """Return the metrics of the transfers of weights between two totals over all workers.

    Empty if no worker has received a version, or one has started again.
    """
    names = ("received", "seconds", "received_bytes")
    received, seconds, size = (totals.get(name, 0) - before.get(name, 0) for name in names)
    if received <= 0 or seconds <= 0 or size <= 0:
        return {}
    return {
        "weights/transfer_seconds": seconds / received,
        "weights/transfer_bytes_per_second": size / seconds,
    }
