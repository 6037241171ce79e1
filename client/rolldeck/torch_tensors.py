"""Arrays of a batch as tensors of torch."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rolldeck.errors import InvalidMessageError

# Index tensors of torch are int64.
WIDENED: Final = frozenset({"tokens", "masks", "distill_token_ids", "group_index", "env_ids"})


def tensors_of(
    arrays: Mapping[str, NDArray[Any]], *, device: str | torch.device = "cpu"
) -> dict[str, Tensor]:
    """Return arrays as tensors on a device.

    Raises:
        InvalidMessageError: If torch has no type for an array.
    """
    target, tensors = torch.device(device), {}
    for name, array in arrays.items():
        values = array.astype(np.int64) if name in WIDENED else array
        try:
            tensor = torch.from_numpy(np.ascontiguousarray(values))
        except TypeError as error:
            message = f"{name}: torch has no tensors of the type {values.dtype}"
            raise InvalidMessageError(message) from error
        is_cuda = target.type == "cuda"
        source = tensor.pin_memory() if is_cuda else tensor
        tensors[name] = source.to(target, non_blocking=is_cuda)
    return tensors
