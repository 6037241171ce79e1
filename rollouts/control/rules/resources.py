"""Resource usage of workers and machines as reported, without invalid values."""

import math
from typing import Any, Final

import msgspec

from rolldeck.wire import MachineUsage, WorkerReport

FIELDS: Final = ("cpu_percent", "memory_bytes", "gpu_percent", "gpu_memory_bytes")
GPU_PERCENT_AT_MOST: Final = 100.0


def valid_usage(report: WorkerReport) -> dict[str, Any]:
    """Return the usage that a report contains; all None if one of its values is invalid.

    A value is invalid if it is negative or not finite, or a GPU utilization above 100 %. One
    invalid value discards the others, because they come from the same measurement.
    """
    usage: dict[str, float | None] = {name: getattr(report, name) for name in FIELDS}
    is_valid = all(_is_amount(value) for value in usage.values()) and _is_share(report.gpu_percent)
    return usage if is_valid else dict.fromkeys(FIELDS)


def is_valid_machine(usage: MachineUsage) -> bool:
    """Return whether every value of a machine's measurement is an amount, and its GPUs a share."""
    return all(_is_amount(value) for value in msgspec.structs.asdict(usage).values()) and _is_share(
        usage.gpu_percent
    )


def _is_amount(value: float | None) -> bool:
    return value is None or (math.isfinite(value) and value >= 0)


def _is_share(percent: float | None) -> bool:
    return percent is None or percent <= GPU_PERCENT_AT_MOST
