"""Share the numbers of a process' environments with the worker, without copying them through pipes.

The memory has no name: it is passed on as a descriptor, and gone with those who hold it.
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
"""A cache line: no two columns share one."""


class EnvBlock:
    """Columns for R rows. The worker writes actions, the process all else; messages say when."""

    def __init__(self, descriptor: int, *, rows: int, observation: Space, action: Space) -> None:
        """Map the memory behind `descriptor`, which grows as needed and may be closed then."""
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
        """``[R, …]``; `final_obs` only where an episode has just ended."""
        self.reward, self.terminated, self.truncated = columns[3:]
        """``[R]``."""


def anonymous_memory() -> int:
    """Return a descriptor of empty memory that a child may be given."""
    if sys.platform == "linux":
        return os.memfd_create("rolldeck-envs")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _size(shape: tuple[int, ...], dtype: Any) -> int:
    size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    return -(-size // _ALIGNMENT) * _ALIGNMENT
