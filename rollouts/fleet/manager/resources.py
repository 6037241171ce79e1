"""Measure what a worker and its env processes use of their machine.

Nothing is invented: what could not be measured is None, and a GPU is reported only by a process
that computes on one and can ask its driver.
"""

import os
import sys
import time
from collections.abc import Iterable
from typing import Any, NamedTuple

import psutil


class Usage(NamedTuple):
    """What was used since the last measurement; None where nobody knows."""

    cpu_percent: float | None = None
    """Of one core, over all processes: 250 is two and a half cores."""
    memory_bytes: int | None = None
    """Resident, over all processes; pages that they share count for each."""
    gpu_percent: float | None = None
    """Time in which the worker's device computed, for whomever."""
    gpu_memory_bytes: int | None = None
    """Taken on the worker's device, by whomever."""


class ResourceMeter:
    """Measures a few processes, each since the call before."""

    def __init__(self) -> None:
        self._seen: dict[int, tuple[psutil.Process, float]] = {}
        self._measured_at: float | None = None
        self._gpu = GpuReader()

    def measure(self, pids: Iterable[int]) -> Usage:
        """Return what the processes use; those that are gone count for nothing.

        A process that is new since the last call counts with its memory only.
        """
        now = time.monotonic()
        before, since = self._seen, self._measured_at
        self._seen, self._measured_at = {}, now
        cpu_seconds, memory = 0.0, 0
        for pid in pids:
            known = before.get(pid)
            try:
                # Compares creation times too: a new process may have an old one's id.
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
    """Asks NVIDIA's driver about the device that this process computes on."""

    def __init__(self, nvml: Any = None) -> None:
        """Ask nothing yet.

        Args:
            nvml: Answers as the module `pynvml` does; None for that module, if there is one.
        """
        self._nvml = nvml
        self._device: Any = None
        self._is_absent = False

    def read(self) -> tuple[float | None, int | None]:
        """Return how busy the device is in percent, and the bytes taken of its memory."""
        if self._is_absent:
            return None, None
        try:
            if self._device is None:
                self._device = self._open()
            busy = self._nvml.nvmlDeviceGetUtilizationRates(self._device).gpu
            taken = self._nvml.nvmlDeviceGetMemoryInfo(self._device).used
        except Exception:  # noqa: BLE001 no module, no driver, no right: all mean that nobody knows
            self._is_absent = True
            return None, None
        return float(busy), int(taken)

    def memory(self) -> tuple[int, int] | None:
        """Return all and the taken bytes of the device's memory; None where nobody knows."""
        try:
            if self._device is None:
                self._device = self._open()
            found = self._nvml.nvmlDeviceGetMemoryInfo(self._device)
        except Exception:  # noqa: BLE001 no module, no driver, no right: all mean that nobody knows
            return None
        return int(found.total), int(found.used)

    def _open(self) -> Any:
        if self._nvml is None:
            import pynvml

            self._nvml = pynvml
        self._nvml.nvmlInit()
        # The first device that the process may see, as frameworks count; Ray sets this variable.
        first = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0].strip()
        if first.startswith(("GPU-", "MIG-")):
            return self._nvml.nvmlDeviceGetHandleByUUID(first)
        if first.startswith("-"):
            raise LookupError("every device is hidden from this process")
        return self._nvml.nvmlDeviceGetHandleByIndex(int(first or 0))


def gpu_memory() -> tuple[int, int] | None:
    """Return all and the taken bytes of this process' GPU; None where nobody knows.

    Uses the driver alone: the process itself takes no memory by asking.
    """
    return GpuReader().memory()


def computes_on_gpu() -> bool:
    """Return whether this process has begun to use a GPU; never begins to."""
    # Another thread may be importing the module: it is there, and not yet what is in it.
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    is_initialized = getattr(cuda, "is_initialized", None)
    return is_initialized is not None and bool(is_initialized())
