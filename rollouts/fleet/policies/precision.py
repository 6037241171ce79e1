"""Half precision of policies: the network computes in it; its results are float32."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

import torch
from torch import Tensor

from rollouts.fleet.policies.policy_protocol import PolicyDoesNotFit

HALF: Final = (torch.bfloat16, torch.float16)


def dtype_of(precision: str, device: torch.device) -> torch.dtype:
    """Return the type of a `policy.precision`.

    Raises:
        PolicyDoesNotFit: If the device does not support it.
    """
    if precision == "float16" and device.type == "cpu":
        raise PolicyDoesNotFit(
            "policy.precision", "float16 needs a GPU; this worker computes on a CPU"
        )
    if (
        precision == "bfloat16"
        and device.type == "cuda"
        and not torch.cuda.is_bf16_supported(including_emulation=False)
    ):
        raise PolicyDoesNotFit(
            "policy.precision",
            f"{torch.cuda.get_device_name(device)} does not support bfloat16; use float16",
        )
    dtype: torch.dtype = getattr(torch, precision)
    return dtype


def computing_in(dtype: torch.dtype, device: torch.device) -> AbstractContextManager[Any]:
    """Return a context in which layers compute in `dtype`, by torch's rules of autocast."""
    return torch.autocast(device.type, dtype=dtype) if dtype in HALF else nullcontext()


def widened(found: Any) -> Any:
    """Return a tensor of half precision as float32, and anything else unchanged."""
    return found.float() if isinstance(found, Tensor) and found.dtype in HALF else found
