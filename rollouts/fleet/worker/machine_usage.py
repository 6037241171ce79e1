"""Measure the machine of a worker: CPU, memory and GPUs, over all of its processes.

The workers of a machine elect one of them with a lock that the kernel releases when its process
ends, so a machine is measured once, however many workers of however many runs it has.
"""

import fcntl
import os
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

import psutil

from rolldeck.wire import MachineUsage
from rollouts.fleet.worker.gpus import GpuReader, Gpus

MEASURE_SECONDS: Final = 30.0
"""Interval of the measurements; the CPU value is the mean over it."""
_BUSY: Final = ("user", "nice", "system", "irq", "softirq")
_OFFSETS: Final = 1 << 30


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

        Args:
            node_id: Ray's id of the node; empty outside of a cluster, where nothing is measured.
            folder: Folder of the lock; None for the temporary folder.
            read_gpus: Reads the GPUs; None for the NVIDIA driver.
        """
        self._node_id = node_id
        self._folder = folder or Path(tempfile.gettempdir())
        self._read_gpus = read_gpus or GpuReader().read_all
        self._lock: int | None = None
        self._measured_at: float | None = None
        self._busy_seconds = 0.0
        self._newest: MachineUsage | None = None

    def measure(self, now: float) -> MachineUsage | None:
        """Return the newest measurement, renewed if it is due; None before the second one.

        Args:
            now: Monotonic seconds.
        """
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
            self._newest = self._usage(max(0.0, self._busy_seconds - before) / (now - since))
        except (OSError, psutil.Error):
            self._newest = None
        return self._newest

    def close(self) -> None:
        """Release the election, so that another worker measures the machine."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _usage(self, cpu_cores: float) -> MachineUsage:
        memory, gpus = psutil.virtual_memory(), self._read_gpus()
        return MachineUsage(
            cpu_cores=round(cpu_cores, 3),
            cpus=psutil.cpu_count() or 1,
            memory_bytes=max(0, memory.total - memory.available),
            memory_total_bytes=memory.total,
            gpus=gpus.devices,
            gpu_percent=gpus.percent,
            gpu_memory_bytes=gpus.memory_bytes,
            gpu_memory_total_bytes=gpus.memory_total_bytes,
        )

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
