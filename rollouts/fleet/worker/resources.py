"""Measure the machine resources used by a worker and its env processes.

Values that cannot be measured are None. GPU usage is reported only by a process that computes on a
GPU and can query the driver.
"""

import time
from collections.abc import Iterable
from typing import NamedTuple

import psutil

from rollouts.fleet.worker.gpus import GpuReader, computes_on_gpu


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
