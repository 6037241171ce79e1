"""Usage of resources by workers and their machines."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import msgspec
import psutil
import pytest
from idle_workers import state_of

from rolldeck.wire import MachineUsage, WorkerReport
from rollouts.fleet.manager.worker_reports import WorkerRecord
from rollouts.fleet.process.loops import EventLog
from rollouts.fleet.worker.resources import (
    MEASURE_SECONDS,
    GpuReader,
    Gpus,
    MachineMeter,
    ResourceMeter,
    computes_on_gpu,
)
from tests.waiting import eventually

SPINNING = "held = b'x' * 50_000_000\nprint(flush=True)\nwhile True: pass"
NO_GPUS = Gpus()
HOLDING = """
import sys
from pathlib import Path
from rollouts.fleet.worker.resources import MachineMeter
MachineMeter(sys.argv[2], folder=Path(sys.argv[1])).measure(0.0)
print("measured", flush=True)
sys.stdin.readline()
"""


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


def meter(folder: Path, *, node: str = "a", gpus: Gpus = NO_GPUS) -> MachineMeter:
    return MachineMeter(node, folder=folder, read_gpus=lambda: gpus)


def measured(one: MachineMeter, *, since: float = 0.0) -> MachineUsage:
    one.measure(since)
    usage = one.measure(since + MEASURE_SECONDS)
    assert usage is not None
    return usage


def test_a_machine_is_measured_over_all_of_its_processes(tmp_path: Path) -> None:
    usage = measured(meter(tmp_path, gpus=Gpus(2, 45.0, 3 << 30, 160 << 30)))

    memory = psutil.virtual_memory()
    assert usage.cpus == psutil.cpu_count()
    assert 0 <= usage.cpu_cores <= usage.cpus
    assert usage.memory_total_bytes == memory.total
    assert usage.memory_bytes == pytest.approx(memory.total - memory.available, rel=0.2)
    assert (usage.gpus, usage.gpu_percent) == (2, 45.0)
    assert (usage.gpu_memory_bytes, usage.gpu_memory_total_bytes) == (3 << 30, 160 << 30)


def test_the_measurement_is_renewed_only_when_it_is_due(tmp_path: Path) -> None:
    one = meter(tmp_path)

    assert one.measure(0.0) is None
    assert one.measure(MEASURE_SECONDS - 1) is None
    first = one.measure(MEASURE_SECONDS)
    assert first is not None
    assert one.measure(MEASURE_SECONDS + 1) is first
    assert one.measure(2 * MEASURE_SECONDS) is not first


def test_a_worker_outside_of_a_cluster_measures_nothing(tmp_path: Path) -> None:
    one = meter(tmp_path, node="")

    assert [one.measure(0.0), one.measure(MEASURE_SECONDS)] == [None, None]
    assert not list(tmp_path.iterdir())


def test_another_worker_takes_over_when_the_measuring_one_ends(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDING, str(tmp_path), "a"]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, env={"PYTHONPATH": ":".join(sys.path)}, **pipes) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"measured\n"
        waiting, elsewhere = meter(tmp_path), meter(tmp_path, node="b")
        assert [waiting.measure(0.0), waiting.measure(MEASURE_SECONDS)] == [None, None]
        assert measured(elsewhere).cpus
        other.kill()
        other.wait()

    assert waiting.measure(2 * MEASURE_SECONDS) is None
    assert waiting.measure(3 * MEASURE_SECONDS) is not None


def test_a_folder_that_cannot_be_written_leaves_the_machine_unmeasured(tmp_path: Path) -> None:
    one = meter(tmp_path / "missing")

    assert [one.measure(0.0), one.measure(MEASURE_SECONDS)] == [None, None]


class TwoDevices:
    """Stand-in for pynvml on a machine with two devices."""

    def __init__(self, *, has_utilization: bool = True) -> None:
        self._has_utilization = has_utilization

    def nvmlInit(self) -> None:  # noqa: N802 pynvml's own names
        pass

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        return index

    def nvmlDeviceGetUtilizationRates(self, device: int) -> Any:  # noqa: N802
        if not self._has_utilization:
            raise RuntimeError("Not Supported")
        return SimpleNamespace(gpu=20 + 40 * device)

    def nvmlDeviceGetMemoryInfo(self, device: int) -> Any:  # noqa: N802
        return SimpleNamespace(used=10 + device, total=80)


def test_gpus_have_the_mean_utilization_and_the_sum_of_memory() -> None:
    assert GpuReader(TwoDevices()).read_all() == (2, 40.0, 21, 160)


def test_gpus_without_a_utilization_still_have_their_memory() -> None:
    assert GpuReader(TwoDevices(has_utilization=False)).read_all() == (2, None, 21, 160)


def test_a_machine_without_a_driver_has_no_gpus() -> None:
    reader = GpuReader(SimpleNamespace())

    assert reader.read_all() == Gpus()
    assert reader.read_all() == Gpus()


def test_a_report_between_two_measurements_repeats_the_last_one(tmp_path: Path) -> None:
    usage = measured(meter(tmp_path))
    record, plain = WorkerRecord(0, EventLog()), state_of("running")
    full = msgspec.structs.replace(plain.report, machine=usage, memory_bytes=1)

    record.receive(msgspec.structs.replace(plain, report=full))
    record.state = record.receive(plain)

    assert record.state.report.machine is usage
    assert record.final_report(restarts=0).machine is None


def test_a_measurement_adds_at_most_250_bytes_to_a_report() -> None:
    usage = MachineUsage(
        cpu_cores=191.375,
        cpus=192,
        memory_bytes=2_000_000_000_000,
        memory_total_bytes=2_100_000_000_000,
        gpus=8,
        gpu_percent=97.125,
        gpu_memory_bytes=640_000_000_000,
        gpu_memory_total_bytes=687_000_000_000,
    )
    plain = WorkerReport(index=0, incarnation="a", state="running")
    full = msgspec.structs.replace(plain, machine=usage)

    added = len(msgspec.json.encode(full)) - len(msgspec.json.encode(plain))
    assert 150 < added <= 250
