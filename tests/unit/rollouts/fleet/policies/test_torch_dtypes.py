"""Published tensors reach a policy unchanged, including types that NumPy lacks."""

import numpy as np
import pytest
import torch

from rolldeck import safetensors
from rolldeck.safetensors import array_of
from rollouts.fleet.engine.checkpoints import named_tensors
from rollouts.fleet.groups.torch_server import TorchInferenceServer
from rollouts.fleet.policies.base import BIT_DTYPES, tensor_of
from tests.unit.rollouts.fleet.engine.small_models import small_model


@pytest.mark.parametrize("kind", sorted(BIT_DTYPES))
@pytest.mark.parametrize("is_writable", [False, True])
def test_bits_become_the_original_tensor(kind: str, is_writable: bool) -> None:
    tensor = torch.randn(4, 3).to(BIT_DTYPES[kind])
    array = array_of(tensor)
    array.flags.writeable = is_writable

    result = tensor_of(array)

    assert result.dtype == tensor.dtype
    assert torch.equal(result.float(), tensor.float())
    assert (result.data_ptr() == tensor.data_ptr()) is not is_writable, "a lender may write to it"


@pytest.mark.parametrize("own", [torch.bfloat16, torch.float32])
def test_an_engine_keeps_its_dtype_and_every_bit_of_bfloat16(own: torch.dtype) -> None:
    published = dict(named_tensors(small_model(seed=1).bfloat16()))
    content = safetensors.encode({name: array_of(part) for name, part in published.items()})
    server = TorchInferenceServer(small_model().to(own), rows=1)
    try:
        prepared = server.prepare(safetensors.decode(content))
    finally:
        server.close()

    for name, part in named_tensors(prepared):
        assert part.dtype == own
        assert torch.equal(part.bfloat16(), published[name])


class OnDevice(torch.Tensor):
    """A tensor that numpy can read only after `cpu`, like one on a GPU."""

    def cpu(self) -> torch.Tensor:  # type: ignore[override]
        return self.as_subclass(torch.Tensor)

    def numpy(self) -> None:  # type: ignore[override]
        raise TypeError("can't convert cuda:0 device type tensor to numpy")

    def __array__(self, *_: object) -> None:  # type: ignore[override]
        self.numpy()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int64])
def test_published_tensors_may_be_on_a_device_and_require_gradients(dtype: torch.dtype) -> None:
    values = torch.arange(6).reshape(2, 3).to(dtype)
    there = values.clone().as_subclass(OnDevice)
    with pytest.raises(TypeError, match="cuda"):
        np.asarray(there)

    published = {"there": array_of(there)}
    if dtype.is_floating_point:
        published["learned"] = array_of(torch.nn.Parameter(values))

    for array in safetensors.decode(safetensors.encode(published)).values():
        found = tensor_of(array)
        assert found.dtype == dtype
        assert torch.equal(found, values)
