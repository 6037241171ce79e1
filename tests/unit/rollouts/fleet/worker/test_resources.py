"""Resource usage is measured, and None where it cannot be measured."""

import os
import subprocess
import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import psutil
import pytest

from rollouts.fleet.worker.resources import GpuReader, ResourceMeter, computes_on_gpu
from tests.waiting import eventually

SPINNING = "held = b'x' * 50_000_000\nprint(flush=True)\nwhile True: pass"


@pytest.fixture
def spinning() -> Iterator[int]:
    """Id of a process that uses one core and 50 MB."""
    with subprocess.Popen([sys.executable, "-c", SPINNING], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.kill()


def test_cpu_and_memory_of_a_process_are_measured_since_the_last_call(spinning: int) -> None:
    meter = ResourceMeter()
    first = meter.measure([spinning])
    process = psutil.Process(spinning)
    before = process.cpu_times().user
    eventually(lambda: process.cpu_times().user > before + 0.2, 30)
    second = meter.measure([spinning])

    assert first.cpu_percent is None
    assert second.cpu_percent is not None
    assert 0 < second.cpu_percent < 150
    assert second.memory_bytes is not None
    assert second.memory_bytes > 50_000_000


def test_an_ended_process_is_not_counted(spinning: int) -> None:
    meter = ResourceMeter()
    alone = meter.measure([spinning]).memory_bytes
    both = meter.measure([spinning, os.getpid()]).memory_bytes
    os.kill(spinning, 9)
    os.waitpid(spinning, 0)
    left = meter.measure([spinning, os.getpid()])

    assert alone is not None
    assert both is not None
    assert left.memory_bytes is not None
    assert left.memory_bytes < both
    assert left.cpu_percent is not None


def test_nothing_to_measure_is_not_zero() -> None:
    assert ResourceMeter().measure([]) == (None, None, None, None)


def test_a_process_that_uses_no_gpu_reports_none() -> None:
    usage = ResourceMeter().measure([os.getpid()])

    assert not computes_on_gpu()
    assert (usage.gpu_percent, usage.gpu_memory_bytes) == (None, None)


def test_a_framework_that_is_being_imported_uses_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))

    assert not computes_on_gpu()
    assert ResourceMeter().measure([os.getpid()]).memory_bytes


class Driver:
    """Stand-in for pynvml on a machine with three devices."""

    def nvmlInit(self) -> None:  # noqa: N802 pynvml's own names
        pass

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:  # noqa: N802
        return f"index {range(3)[index]}"

    def nvmlDeviceGetHandleByUUID(self, name: str) -> str:  # noqa: N802
        return f"uuid {name}"

    def nvmlDeviceGetUtilizationRates(self, device: str) -> Any:  # noqa: N802
        return SimpleNamespace(gpu=len(device))

    def nvmlDeviceGetMemoryInfo(self, device: str) -> Any:  # noqa: N802
        return SimpleNamespace(used={"index 0": 10, "index 2": 12}.get(device, 99))


@pytest.mark.parametrize(
    ("visible", "detected"),
    [
        (None, (7.0, 10)),
        ("2,0", (7.0, 12)),
        ("GPU-1a2b", (13.0, 99)),
        ("7", (None, None)),
        ("-1", (None, None)),
    ],
    ids=["all", "the third", "by name", "one that is not there", "none"],
)
def test_the_device_is_the_first_visible_to_the_process(
    visible: str | None, detected: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)

    assert GpuReader(Driver()).read() == detected


@pytest.mark.parametrize("torch", [SimpleNamespace(), SimpleNamespace(cuda=SimpleNamespace())])
def test_a_torch_that_another_thread_is_importing_uses_no_gpu_yet(
    monkeypatch: pytest.MonkeyPatch, torch: SimpleNamespace
) -> None:
    monkeypatch.setitem(sys.modules, "torch", torch)  # type: ignore[arg-type]

    assert not computes_on_gpu()


def test_a_machine_without_a_driver_reports_none_and_is_not_queried_again() -> None:
    reader = GpuReader(SimpleNamespace())

    assert reader.read() == (None, None)
    assert reader.read() == (None, None)
