"""Arrays of a batch as tensors of torch."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rolldeck.wire import InvalidMessage

# Index tensors of torch are int64.
WIDENED: Final = frozenset({"tokens", "masks", "distill_token_ids", "group_index", "env_ids"})


def tensors_of(
    arrays: Mapping[str, NDArray[Any]], *, device: str | torch.device = "cpu"
) -> dict[str, Tensor]:
    """Return arrays as tensors on a device.

    Raises:
        InvalidMessage: If torch has no type for an array.
    """
    return {name: _tensor(name, array, torch.device(device)) for name, array in arrays.items()}


def _tensor(name: str, array: NDArray[Any], device: torch.device) -> Tensor:
    if name in WIDENED:
        array = array.astype(np.int64)
    try:
        tensor = torch.from_numpy(np.ascontiguousarray(array))
    except TypeError as error:
        raise InvalidMessage(f"{name}: torch has no tensors of the type {array.dtype}") from error
    if device.type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)
