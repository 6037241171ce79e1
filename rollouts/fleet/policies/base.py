"""Base class of torch policies in rollout workers."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from copy import copy
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rollouts.fleet.policies.heads import LOG_STD, head_for
from rollouts.fleet.policies.policy_protocol import (
    Decision,
    NoWeights,
    PolicyDoesNotFit,
    State,
    WeightsDoNotFit,
)
from rollouts.fleet.policies.precision import computing_in, dtype_of, widened
from rollouts.fleet.policies.spaces import Space
from rollouts.fleet.policies.transfer import arrays_of

BIT_DTYPES: Final = {
    "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
}


class TorchPolicy(ABC):
    """A torch module in a rollout worker.

    The given module is only a template. Each version of the weights gets its own module in
    `prepare`, and `adopt` activates it.
    """

    def __init__(
        self,
        module: nn.Module,
        *,
        observation: Space,
        action: Space,
        seed: int,
        device: str = "auto",
        precision: str = "float32",
    ) -> None:
        """Set up the policy without weights.

        Args:
            module: Template with names, shapes and types of the weights; its values are not used.
            observation: Observation space.
            action: Action space.
            seed: Random seed of the actions.
            device: ``auto`` uses a GPU if there is one.
            precision: Type in which the network computes: ``float32``, ``bfloat16``, ``float16``.

        Raises:
            PolicyDoesNotFit: If the device is missing or does not support the precision.
        """
        # Workers are sized for one core each; more threads would compete with other workers.
        torch.set_num_threads(1)
        self._device = device_of(device)
        self._dtype = dtype_of(precision, self._device)
        self._observation = observation
        self._head = head_for(action)
        self._template = module.to("meta")
        self._acting: nn.Module | None = None
        self._random = torch.Generator(device=self._device).manual_seed(seed)
        self.is_deterministic = False
        """Whether `act` returns the most likely action instead of a sampled one."""

    def initial_state(self, batch: int) -> State:  # noqa: ARG002 protocol
        """Return an empty state: the policy is stateless."""
        return {}

    def act(self, obs: NDArray[Any], state: State, first: NDArray[np.bool_]) -> Decision:
        """Choose an action for each of ``obs [B, …]``.

        Raises:
            NoWeights: If no weights have been adopted.
        """
        module = self._acting
        if module is None:
            raise NoWeights("act() requires adopted weights")
        with torch.inference_mode():
            with computing_in(self._dtype, self._device):
                outputs, values, after = self._run(module, obs, state, first)
            actions, logprobs = self._draw(module, widened(outputs))
            arrays = arrays_of(
                [widened(one) for one in (actions, logprobs, values, *after.values())]
            )
        return Decision(
            actions=arrays[0],
            logprobs=arrays[1],
            values=arrays[2],
            state=dict(zip(after, arrays[3:], strict=True)),
        )

    def prepare(self, tensors: Mapping[str, NDArray[Any]]) -> nn.Module:
        """Return a module with these weights on the policy's device; thread-safe.

        On a CPU, the module uses the memory of read-only arrays directly. All workers of a node
        then share one copy of the weights, in the cluster's object store. Half precision needs
        a converted copy.

        Raises:
            WeightsDoNotFit: If names or shapes do not match the policy.
        """
        expected = self._template.state_dict()
        check_weights(expected, tensors)
        tensors_of = {
            name: placed(
                tensor_of(value),
                self._device,
                expected[name].dtype if name == LOG_STD else self._dtype,
            )
            for name, value in tensors.items()
        }
        return _with_weights(self._template, tensors_of)

    def adopt(self, prepared: nn.Module) -> None:
        """Use a prepared module from now on; recurrent state is kept."""
        self._acting = prepared

    def load(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        """Prepare and adopt weights.

        Raises:
            WeightsDoNotFit: If names or shapes do not match the policy.
        """
        self.adopt(self.prepare(tensors))

    def _draw(self, module: nn.Module, outputs: Tensor) -> tuple[Tensor, Tensor]:
        """Return actions ``[B, …]`` and their logprobs ``[B]`` for ``outputs [B, outputs]``."""
        log_std = module.log_std if self._head.is_continuous else None
        if self.is_deterministic:
            actions = self._head.most_likely(outputs)
            return actions, self._head.logprob(outputs, log_std, actions)
        return self._head.draw(outputs, log_std, self._random)

    @abstractmethod
    def _run(
        self, module: nn.Module, obs: NDArray[Any], state: State, first: NDArray[np.bool_]
    ) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """Return outputs ``[B, outputs]``, values ``[B]`` and the state after this step."""


def device_of(name: str) -> torch.device:
    """Return the device of a name; see :attr:`FleetConfig.policy_device` for that of a worker.

    Raises:
        PolicyDoesNotFit: If the device is missing.
    """
    has_gpu = torch.cuda.is_available()
    if name == "cuda" and not has_gpu:
        raise PolicyDoesNotFit("fleet.device", "cuda is configured, but torch finds no GPU")
    return torch.device(("cuda" if has_gpu else "cpu") if name == "auto" else name)


def placed(tensor: Tensor, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Return `tensor` on a device and with a type; unchanged, without a torch call, if it matches.

    Every torch call releases the GIL, which takes milliseconds to reacquire next to an acting
    thread.
    """
    if tensor.device == device and tensor.dtype == dtype:
        return tensor
    return tensor.to(device, dtype)


def _with_weights(module: nn.Module, tensors: Mapping[str, Tensor], prefix: str = "") -> nn.Module:
    """Return a copy of `module` with other weights, by name; all else is shared.

    A deep copy of an empty module takes longer than the rest of `prepare`, and so does
    `load_state_dict` next to an acting thread; see `placed`.
    """
    made = copy(module)
    own = made.__dict__
    own["training"] = False
    own["_parameters"] = {
        name: empty if empty is None else nn.Parameter(tensors[prefix + name], requires_grad=False)
        for name, empty in own["_parameters"].items()
    }
    own["_buffers"] = {
        name: tensors.get(prefix + name, empty) for name, empty in own["_buffers"].items()
    }
    own["_modules"] = {
        name: child if child is None else _with_weights(child, tensors, f"{prefix}{name}.")
        for name, child in own["_modules"].items()
    }
    if isinstance(made, nn.RNNBase):
        # Torch's recurrent layers have a second list of their weights.
        own["_flat_weights"] = [getattr(made, name, None) for name in own["_flat_weights_names"]]
    return made


def tensor_of(array: NDArray[Any]) -> Tensor:
    """Return an array as a tensor; see `shared` for its memory.

    Args:
        array: Array of a NumPy type, or of the bits of another type
            (:data:`rolldeck.safetensors.BITS`).
    """
    if array.dtype.names is None:
        return torch.from_numpy(shared(array))
    (kind,) = array.dtype.names
    bits = array.view(np.int16 if array.dtype.itemsize == 2 else np.uint8)
    return torch.from_numpy(shared(bits)).view(BIT_DTYPES[kind])


def shared(array: NDArray[Any]) -> NDArray[Any]:
    """Return `array` in a form that torch accepts, without a copy if it is read-only.

    Writable arrays are copied, because their owner may change them at any time.
    """
    flags = array.flags
    if flags.writeable or not (flags.c_contiguous and flags.aligned and array.dtype.isnative):
        return np.array(array, dtype=array.dtype.newbyteorder("="))
    return np.asarray(_Lent(array))


class _Lent:
    """Presents a read-only array's memory as writable.

    Torch warns about read-only tensors; the weights in use are never written.
    """

    def __init__(self, array: NDArray[Any]) -> None:
        self._array = array
        described = array.__array_interface__
        self.__array_interface__ = {**described, "data": (described["data"][0], False)}


def check_weights(expected: Mapping[str, Tensor], given: Mapping[str, NDArray[Any]]) -> None:
    """Check that `given` has the names and shapes of `expected`.

    Raises:
        WeightsDoNotFit: If not.
    """
    expected_shapes = {name: tuple(value.shape) for name, value in expected.items()}
    given_shapes = {name: tuple(value.shape) for name, value in given.items()}
    if expected_shapes != given_shapes:
        raise WeightsDoNotFit.between(expected_shapes, given_shapes)
