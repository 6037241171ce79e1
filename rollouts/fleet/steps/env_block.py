"""Shared memory for the step data of a process' environments.

The memory has no name: it is passed as a descriptor and freed with its last holder.
"""

import mmap
import os
import sys
import tempfile
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from rollouts.fleet.policies.spaces import Space

_ALIGNMENT: Final = 64
"""Size of a cache line: no two columns share one."""


class EnvBlock:
    """Columns for R rows; the worker writes actions and the process writes the rest."""

    def __init__(self, descriptor: int, *, rows: int, observation: Space, action: Space) -> None:
        """Map the memory of `descriptor`, grown as needed; the descriptor may then be closed."""
        forms: list[tuple[tuple[int, ...], Any]] = [
            ((rows, *action.shape), action.array_dtype),
            ((rows, *observation.shape), observation.array_dtype),
            ((rows, *observation.shape), observation.array_dtype),
            ((rows,), np.float64),
            ((rows,), np.bool_),
            ((rows,), np.bool_),
        ]
        sizes = [_size(shape, dtype) for shape, dtype in forms]
        if os.fstat(descriptor).st_size < sum(sizes):
            os.ftruncate(descriptor, sum(sizes))
        memory = mmap.mmap(descriptor, sum(sizes))
        columns: list[NDArray[Any]] = []
        begin = 0
        for (shape, dtype), size in zip(forms, sizes, strict=True):
            columns.append(np.ndarray(shape, dtype, buffer=memory, offset=begin))
            begin += size
        self.actions, self.obs, self.final_obs = columns[:3]
        """``[R, …]``; `final_obs` is valid only where an episode has just ended."""
        self.reward, self.terminated, self.truncated = columns[3:]
        """``[R]``."""


def anonymous_memory() -> int:
    """Return a descriptor of empty memory that a child process can inherit."""
    if sys.platform == "linux":
        return os.memfd_create("rolldeck-envs")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _size(shape: tuple[int, ...], dtype: Any) -> int:
    size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    return -(-size // _ALIGNMENT) * _ALIGNMENT
