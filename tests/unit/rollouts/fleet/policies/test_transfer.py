"""Results of a policy leave its device in one copy, without a changed bit."""

import numpy as np
import torch

from rollouts.fleet.policies.base import arrays_of, packed, unpacked

RESULTS = [
    torch.tensor([1, -(2**62), 3]),
    torch.tensor([0.1, float("-inf"), -1e-30]),
    torch.randn(3, 2, 4),
    torch.randn(4, 3).T,  # not contiguous
    torch.tensor([[True], [False], [True]]),
    torch.empty(3, 0),
]


def test_packed_results_are_the_same_arrays() -> None:
    together = packed(RESULTS)
    found = unpacked(together.numpy(), RESULTS)

    assert together.dtype == torch.uint8
    assert together.shape == (3, 8 + 4 + 32 + 16 + 1)
    for array, tensor in zip(found, RESULTS, strict=True):
        assert array.dtype == tensor.numpy().dtype
        np.testing.assert_array_equal(array, tensor.numpy())


def test_results_on_the_cpu_are_not_copied() -> None:
    (array,) = arrays_of([RESULTS[2]])

    assert array.ctypes.data == RESULTS[2].data_ptr()
