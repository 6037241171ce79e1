"""Names and values of the resource series of a run, listed in docs/explanation/metrics.md."""

from collections.abc import Mapping
from typing import Any, Final

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
