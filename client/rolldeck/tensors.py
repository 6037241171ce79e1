"""Views of framework tensors as numpy arrays of the same bits."""

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
    """View `tensor` as an array; types that numpy lacks as :data:`safetensors.BITS`.

    Args:
        tensor: A numpy array, or a torch tensor on the CPU that requires no gradient.
    """
    kind = TORCH_KINDS.get(str(getattr(tensor, "dtype", "")))
    if kind is None:
        return np.asarray(tensor)
    # A torch tensor implies that torch is loaded; this package does not import it.
    torch = sys.modules["torch"]
    dtype = BITS[kind]
    whole = tensor.contiguous().view(torch.int16 if dtype.itemsize == 2 else torch.uint8)
    bits: NDArray[Any] = whole.numpy().view(dtype)
    return bits
