"""Read GPU usage from the NVIDIA driver, and check that a GPU has room for a worker."""

import os
import sys
from typing import Any, Final, NamedTuple

EXPECTED: Final = 0.8
"""Fraction of a worker's share that must be free: drivers and other processes use some memory, and
a policy seldom needs all of it.
"""
_GB: Final = 1e9


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
        """Prepare the reader without a query.

        Args:
            nvml: Object with the interface of the module `pynvml`; None uses that module.
        """
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

    Args:
        share: Share of the GPU that the worker reserves; 1 and more: the whole GPU.
        total_bytes: Memory of the GPU.
        used_bytes: Memory used by any process, including processes that are exiting.
    """
    required = min(share, 1.0) * EXPECTED * total_bytes
    free = total_bytes - used_bytes
    if free >= required:
        return ""
    return (
        f"{free / _GB:.1f} of {total_bytes / _GB:.1f} GB of the GPU are free, "
        f"its share is {min(share, 1.0):g}"
    )
