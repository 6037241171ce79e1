"""Count the copies from a device, on a machine without one."""

from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

READS = {
    Tensor.cpu,
    Tensor.item,
    Tensor.numpy,
    Tensor.tolist,
    Tensor.__array__,
    Tensor.__bool__,
    Tensor.__float__,
    Tensor.__int__,
}
"""Operations that wait for a device and copy from it."""


class DeviceCopies(TorchFunctionMode):
    """Presents every tensor as one on a GPU until `cpu` copied it, and counts the reads."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        """Names of the operations that read from the device."""
        self._on_cpu: list[Tensor] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__self__", None) is Tensor.device:
            is_copy = any(args[0] is one for one in self._on_cpu)
            return torch.device("cpu" if is_copy else "cuda")
        if func in READS and not any(args[0] is one for one in self._on_cpu):
            self.names.append(func.__name__)
        kwargs = dict(kwargs or {})
        if str(kwargs.get("device")) == "cuda":
            kwargs["device"] = "cpu"
        found = func(*args, **kwargs)
        if func is Tensor.cpu:
            self._on_cpu.append(found)
        return found
