"""Measure the machine resources used by a worker and its env processes.

Values that cannot be measured are None. GPU usage is reported only by a process that computes on a
GPU and can query the driver.
"""

import os
import sys
import time
from collections.abc import Iterable
from typing import Any, NamedTuple

import psutil


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


class GpuReader:
    """Reader of NVIDIA driver data about the device that this process computes on."""

    def __init__(self, nvml: Any = None) -> None:
        """Prepare the reader without a query.

        Args:
            nvml: Object with the interface of the module `pynvml`; None uses that module.
        """
        self._nvml = nvml
        self._device: Any = None
        self._is_absent = False

    def read(self) -> tuple[float | None, int | None]:
        """Return the device's utilization in percent and its used memory in bytes."""
        if self._is_absent:
            return None, None
        try:
            if self._device is None:
                self._device = self._open()
            busy = self._nvml.nvmlDeviceGetUtilizationRates(self._device).gpu
            taken = self._nvml.nvmlDeviceGetMemoryInfo(self._device).used
        except Exception:  # noqa: BLE001 module, driver or permission missing
            self._is_absent = True
            return None, None
        return float(busy), int(taken)

    def memory(self) -> tuple[int, int] | None:
        """Return the device's total and used memory in bytes; None if unknown."""
        try:
            if self._device is None:
                self._device = self._open()
            found = self._nvml.nvmlDeviceGetMemoryInfo(self._device)
        except Exception:  # noqa: BLE001 module, driver or permission missing
            return None
        return int(found.total), int(found.used)

    def _open(self) -> Any:
        if self._nvml is None:
            import pynvml

            self._nvml = pynvml
        self._nvml.nvmlInit()
        # The first visible device, in the order of CUDA frameworks; Ray sets this variable.
        first = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0].strip()
        if first.startswith(("GPU-", "MIG-")):
            return self._nvml.nvmlDeviceGetHandleByUUID(first)
        if first.startswith("-"):
            raise LookupError("CUDA_VISIBLE_DEVICES hides every device from this process")
        return self._nvml.nvmlDeviceGetHandleByIndex(int(first or 0))


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
