"""Resource usage in a report is valid as a whole, or absent."""

from typing import Any

import pytest

from rolldeck.wire import WorkerReport
from rollouts.control.rules import valid_usage

FULL: dict[str, Any] = {
    "cpu_percent": 250.0,
    "memory_bytes": 7 << 30,
    "gpu_percent": 40.0,
    "gpu_memory_bytes": 2 << 30,
}
ABSENT = dict.fromkeys(FULL)


def usage(**fields: Any) -> dict[str, Any]:
    return valid_usage(WorkerReport(index=0, incarnation="a", state="running", **fields))


def test_a_valid_measurement_stays_as_reported() -> None:
    assert usage(**FULL) == FULL


def test_a_worker_without_a_gpu_keeps_its_other_values() -> None:
    without = FULL | {"gpu_percent": None, "gpu_memory_bytes": None}

    assert usage(**without) == without


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cpu_percent", float("nan")),
        ("cpu_percent", float("inf")),
        ("cpu_percent", -1.0),
        ("memory_bytes", -1),
        ("gpu_percent", float("nan")),
        ("gpu_percent", -0.5),
        ("gpu_percent", 101.0),
        ("gpu_memory_bytes", -1),
    ],
)
def test_one_invalid_value_discards_the_whole_measurement(name: str, value: float) -> None:
    assert usage(**FULL | {name: value}) == ABSENT
