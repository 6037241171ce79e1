"""Framework tensors as numpy arrays of the same bits, views where possible."""

import sys
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from rolldeck.safetensors import BITS

TORCH_KINDS: Final = {
    "torch.bfloat16": "BF16",
    "torch.float8_e4m3fn": "F8_E4M3",
    "torch.float8_e5m2": "F8_E5M2",
}


def array_of(tensor: Any) -> NDArray[Any]:
    """Return `tensor` as an array; types that numpy lacks as :data:`rolldeck.safetensors.BITS`.

    On the CPU the array is a view.

    Args:
        tensor: A numpy array, or a torch tensor on any device, with or without a gradient. One
            that is not on the CPU is copied there, in its own type.
    """
    if hasattr(tensor, "detach"):
        tensor = tensor.detach().cpu()
    kind = TORCH_KINDS.get(str(getattr(tensor, "dtype", "")))
    if kind is None:
        return np.asarray(tensor)
    # A torch tensor implies that torch is loaded; this package does not import it.
    torch = sys.modules["torch"]
    dtype = BITS[kind]
    whole = tensor.contiguous().view(torch.int16 if dtype.itemsize == 2 else torch.uint8)
    bits: NDArray[Any] = whole.numpy().view(dtype)
    return bits
