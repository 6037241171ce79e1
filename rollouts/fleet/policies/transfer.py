"""Copies of a policy's results from its device."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def arrays_of(tensors: Sequence[Tensor]) -> list[NDArray[Any]]:
    """Return tensors ``[B, …]`` of one device as arrays; those of a GPU in one copy.

    Each copy from a GPU waits for it, so one copy per tensor would cost several waits per step.
    """
    if tensors[0].device.type == "cpu":
        return [tensor.numpy() for tensor in tensors]
    return unpacked(packed(tensors).cpu().numpy(), tensors)


def packed(tensors: Sequence[Tensor]) -> Tensor:
    """Return the bytes of tensors ``[B, …]``, side by side, as uint8 ``[B, bytes]``."""
    rows = len(tensors[0])
    return torch.cat(
        [tensor.reshape(rows, -1).contiguous().view(torch.uint8) for tensor in tensors], dim=1
    )


def unpacked(packed_bytes: NDArray[np.uint8], like: Sequence[Tensor]) -> list[NDArray[Any]]:
    """Return the arrays of `packed` bytes, with the shapes and types of `like`."""
    arrays, begin = [], 0
    for tensor in like:
        dtype = np.dtype(str(tensor.dtype).removeprefix("torch."))
        end = begin + dtype.itemsize * (tensor.numel() // max(len(tensor), 1))
        column = np.ascontiguousarray(packed_bytes[:, begin:end])
        arrays.append(column.view(dtype).reshape(tuple(tensor.shape)))
        begin = end
    return arrays
