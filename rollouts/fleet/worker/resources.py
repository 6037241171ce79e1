"""Measure resources: those that a worker and its env processes use, and those of its machine.

Values that cannot be measured are None. GPU usage is reported only by a process that computes on a
GPU and can query the driver. The workers of a machine elect one of them with a lock that the kernel
releases when its process ends, so a machine is measured once, however many workers it has.
"""

import fcntl
import os
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

import psutil

from rolldeck.wire import MachineUsage

EXPECTED: Final = 0.8
"""Fraction of a worker's share that must be free: drivers and other processes use some memory, and
a policy seldom needs all of it.
"""
_GB: Final = 1e9
MEASURE_SECONDS: Final = 30.0
"""Interval of the measurements; the CPU value is the mean over it."""
_BUSY: Final = ("user", "nice", "system", "irq", "softirq")
_OFFSETS: Final = 1 << 30


class Gpus(NamedTuple):
    """Usage of all GPUs of a machine."""

    devices: int = 0
    percent: float | None = None
    """Mean over the devices; None if one has no value, as with MIG."""
    memory_bytes: int | None = None
    memory_total_bytes: int | None = None


class GpuReader:
    """Reader of NVIDIA driver data; no values without the module, a driver or a permission."""

    def __init__(self, nvml: Any = None) -> None:
        """Prepare the reader without a query; by default of the module `pynvml`."""
        self._nvml = nvml
        self._device: Any = None
        self._is_absent = False

    def read(self) -> tuple[float | None, int | None]:
        """Return this process' device: its utilization in percent and its used memory in bytes.

        After a failed query the driver is not queried again.
        """
        if self._is_absent:
            return None, None
        try:
            device = self._own_device()
            busy = self._nvml.nvmlDeviceGetUtilizationRates(device).gpu
            used = self._nvml.nvmlDeviceGetMemoryInfo(device).used
        except Exception:  # noqa: BLE001 module, driver or permission missing
            self._is_absent = True
            return None, None
        return float(busy), int(used)

    def memory(self) -> tuple[int, int] | None:
        """Return the total and used memory of this process' device in bytes; None if unknown."""
        try:
            device = self._own_device()
            memory = self._nvml.nvmlDeviceGetMemoryInfo(device)
        except Exception:  # noqa: BLE001 module, driver or permission missing
            return None
        return int(memory.total), int(memory.used)

    def read_all(self) -> Gpus:
        """Return the usage of all GPUs of the machine.

        After a failed query the driver is not queried again.
        """
        if self._is_absent:
            return Gpus()
        try:
            nvml = self._initialized()
            count = int(nvml.nvmlDeviceGetCount())
            devices = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(count)]
            memory = [nvml.nvmlDeviceGetMemoryInfo(device) for device in devices]
        except Exception:  # noqa: BLE001 module, driver or permission missing
            self._is_absent = True
            return Gpus()
        if not devices:
            return Gpus()
        try:
            rates = [float(nvml.nvmlDeviceGetUtilizationRates(device).gpu) for device in devices]
            percent: float | None = sum(rates) / count
        except Exception:  # noqa: BLE001 driver errors have no common base
            percent = None
        used = sum(int(each.used) for each in memory)
        return Gpus(count, percent, used, sum(int(each.total) for each in memory))

    def _initialized(self) -> Any:
        if self._nvml is None:
            import pynvml

            self._nvml = pynvml
        self._nvml.nvmlInit()
        return self._nvml

    def _own_device(self) -> Any:
        if self._device is None:
            nvml = self._initialized()
            # The first visible device, in the order of CUDA frameworks; Ray sets this variable.
            first = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0].strip()
            if first.startswith(("GPU-", "MIG-")):
                self._device = nvml.nvmlDeviceGetHandleByUUID(first)
            elif first.startswith("-"):
                raise LookupError("CUDA_VISIBLE_DEVICES hides every device from this process")
            else:
                self._device = nvml.nvmlDeviceGetHandleByIndex(int(first or 0))
        return self._device


def gpu_memory() -> tuple[int, int] | None:
    """Return the total and used memory of this process' GPU in bytes; None if unknown.

    Only the driver is queried, so the call itself allocates no GPU memory.
    """
    return GpuReader().memory()


def computes_on_gpu() -> bool:
    """Return whether this process has initialized a GPU; never initializes one."""
    # Another thread may be importing torch, which is then only partially initialized.
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    is_initialized = getattr(cuda, "is_initialized", None)
    return is_initialized is not None and bool(is_initialized())


def shortage(*, share: float, total_bytes: int, used_bytes: int) -> str:
    """Return why a worker must not start on a GPU yet; empty if it may.

    A share of 1 and more is the whole GPU. Processes that are exiting still use memory.
    """
    required = min(share, 1.0) * EXPECTED * total_bytes
    free = total_bytes - used_bytes
    if free >= required:
        return ""
    return (
        f"{free / _GB:.1f} of {total_bytes / _GB:.1f} GB of the GPU are free, "
        f"its share is {min(share, 1.0):g}"
    )


class Usage(NamedTuple):
    """Usage since the last measurement; None where unknown."""

    cpu_percent: float | None = None
    """Percent of one core, over all processes: 250 means two and a half cores."""
    memory_bytes: int | None = None
    """Resident memory of all processes; shared pages count once per process."""
    gpu_percent: float | None = None
    """Percent of time in which the worker's device was busy, for any process."""
    gpu_memory_bytes: int | None = None
    """Memory in use on the worker's device, by any process."""


class ResourceMeter:
    """Meter of a set of processes; CPU time counts since the previous call."""

    def __init__(self) -> None:
        self._seen: dict[int, tuple[psutil.Process, float]] = {}
        self._measured_at: float | None = None
        self._gpu = GpuReader()

    def measure(self, pids: Iterable[int]) -> Usage:
        """Return the usage of the processes; processes that have ended count as zero.

        A process that is new since the last call counts only with its memory.
        """
        now = time.monotonic()
        before, since = self._seen, self._measured_at
        self._seen, self._measured_at = {}, now
        cpu_seconds, memory = 0.0, 0
        for pid in pids:
            known = before.get(pid)
            try:
                # is_running() compares creation times, because process ids are reused.
                is_known = known is not None and known[0].is_running()
                process = known[0] if known and is_known else psutil.Process(pid)
                with process.oneshot():
                    times = process.cpu_times()
                    memory += process.memory_info().rss
            except psutil.Error:
                continue
            used = float(times.user + times.system)
            self._seen[pid] = (process, used)
            if known and is_known:
                cpu_seconds += max(0.0, used - known[1])
        if not self._seen:
            return Usage()
        percent = None if since is None else 100 * cpu_seconds / max(now - since, 1e-3)
        return Usage(percent, memory, *(self._gpu.read() if computes_on_gpu() else (None, None)))


class MachineMeter:
    """Meter of the machine for the elected worker; other workers get None."""

    def __init__(
        self,
        node_id: str,
        *,
        folder: Path | None = None,
        read_gpus: Callable[[], Gpus] | None = None,
    ) -> None:
        """Prepare the meter without measuring.

        `node_id` is Ray's id of the node; empty outside of a cluster, where nothing is measured.
        """
        self._node_id = node_id
        self._folder = folder or Path(tempfile.gettempdir())
        self._read_gpus = read_gpus or GpuReader().read_all
        self._lock: int | None = None
        self._measured_at: float | None = None
        self._busy_seconds = 0.0
        self._newest: MachineUsage | None = None

    def measure(self, now: float) -> MachineUsage | None:
        """Return the newest measurement, renewed if it is due; None before the second one."""
        if not self._node_id:
            return None
        if self._measured_at is not None and now - self._measured_at < MEASURE_SECONDS:
            return self._newest
        before, since = self._busy_seconds, self._measured_at
        self._measured_at = now
        if not self._is_elected():
            return None
        try:
            self._busy_seconds = _busy_seconds()
            if since is None or not before:
                return None
            memory, gpus = psutil.virtual_memory(), self._read_gpus()
            cpu_cores = max(0.0, self._busy_seconds - before) / (now - since)
            self._newest = MachineUsage(
                cpu_cores=round(cpu_cores, 3),
                cpus=psutil.cpu_count() or 1,
                memory_bytes=max(0, memory.total - memory.available),
                memory_total_bytes=memory.total,
                gpus=gpus.devices,
                gpu_percent=gpus.percent,
                gpu_memory_bytes=gpus.memory_bytes,
                gpu_memory_total_bytes=gpus.memory_total_bytes,
            )
        except (OSError, psutil.Error):
            self._newest = None
        return self._newest

    def close(self) -> None:
        """Release the election, so that another worker measures the machine."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _is_elected(self) -> bool:
        """Return whether this process measures the node; try to become it if none does."""
        if self._lock is not None:
            return True
        path = self._folder / f"rolldeck-machine-{os.getuid()}.lock"
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except OSError:
            return False
        try:
            # Unlike flock, this lock is not inherited by env processes. Nodes on one machine, as
            # in tests, lock different bytes of the file.
            place = zlib.crc32(self._node_id.encode()) % _OFFSETS
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
        except OSError:
            os.close(file)
            return False
        self._lock = file
        return True


def _busy_seconds() -> float:
    """Return the CPU time that the machine has spent since its start, in seconds."""
    times = psutil.cpu_times()
    return sum(float(getattr(times, name, 0.0)) for name in _BUSY)
