"""Values of the platform's built-in metrics of a run, listed in docs/explanation/metrics.md."""

import math
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final


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

    Args:
        workers: Number of measured workers.
        sums: Aggregates over the workers, as ``cpu_percent_sum``.
        single: Fields of single workers by index.
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
