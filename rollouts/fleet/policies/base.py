"""Base class of torch policies in rollout workers."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from typing import Any, Final, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor, nn

from rollouts.fleet.policies.policy_protocol import (
    Decision,
    NoWeights,
    PolicyDoesNotFit,
    State,
    WeightsDoNotFit,
)
from rollouts.fleet.policies.spaces import Space

HALF: Final = (torch.bfloat16, torch.float16)
LOG_2_PI: Final = math.log(2 * math.pi)
LOG_STD: Final = "log_std"
"""Name of the log standard deviations among the weights."""
BIT_DTYPES: Final = {
    "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
}


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


class Head(Protocol):
    """Distribution of actions, given the outputs of a network."""

    outputs: int
    """Number of network outputs per observation."""
    is_continuous: bool
    """Whether the network has a `log_std [outputs]` in addition to its outputs."""

    def draw(
        self, outputs: Tensor, log_std: Tensor | None, random: Generator
    ) -> tuple[Tensor, Tensor]:
        """Return actions ``[B, …]`` and their logprobs ``[B]`` for ``outputs [B, outputs]``."""

    def most_likely(self, outputs: Tensor) -> Tensor:
        """Return the most likely actions ``[B, …]`` for ``outputs [B, outputs]``."""

    def logprob(self, outputs: Tensor, log_std: Tensor | None, actions: Tensor) -> Tensor:
        """Return the logprobs ``[…]`` of given actions, for ``outputs […, outputs]``."""


class ChoiceHead:
    """Categorical distribution; the outputs are logits."""

    is_continuous = False

    def __init__(self, choices: int) -> None:
        self.outputs = choices

    def draw(
        self,
        outputs: Tensor,
        log_std: Tensor | None,  # noqa: ARG002 protocol
        random: Generator,
    ) -> tuple[Tensor, Tensor]:
        """Return ``[B]`` int64 choices and their logprobs."""
        logprobs = torch.log_softmax(outputs, dim=-1)
        # The argmax of logprob + Gumbel noise is distributed as the softmax.
        noise = torch.empty_like(logprobs).exponential_(generator=random).log_()
        chosen = (logprobs - noise).argmax(dim=-1)
        return chosen, logprobs.gather(-1, chosen[..., None]).squeeze(-1)

    def most_likely(self, outputs: Tensor) -> Tensor:
        return outputs.argmax(dim=-1)

    def logprob(
        self,
        outputs: Tensor,
        log_std: Tensor | None,  # noqa: ARG002 protocol
        actions: Tensor,
    ) -> Tensor:
        logprobs = torch.log_softmax(outputs, dim=-1)
        return logprobs.gather(-1, actions[..., None].long()).squeeze(-1)


class GaussianHead:
    """Gaussian distribution with a standard deviation independent of the observation.

    A logprob is that of the unclipped action. Fragments store the unclipped action; only the
    environment gets an action clipped to its bounds.
    """

    is_continuous = True

    def __init__(self, shape: Sequence[int]) -> None:
        self.outputs = math.prod(shape)
        self._shape = tuple(shape)

    def draw(
        self, outputs: Tensor, log_std: Tensor | None, random: Generator
    ) -> tuple[Tensor, Tensor]:
        """Return ``[B, *shape]`` float32 actions and their logprobs."""
        spread = _given(log_std)
        noise = torch.empty_like(outputs).normal_(generator=random)
        flat = outputs + noise * spread.exp()
        return flat.reshape(-1, *self._shape), _gaussian(noise, spread)

    def most_likely(self, outputs: Tensor) -> Tensor:
        return outputs.reshape(-1, *self._shape)

    def logprob(self, outputs: Tensor, log_std: Tensor | None, actions: Tensor) -> Tensor:
        spread = _given(log_std)
        noise = (actions.reshape(outputs.shape) - outputs) * torch.exp(-spread)
        return _gaussian(noise, spread)


class ChoicesHead:
    """Several independent categorical distributions; the outputs are their logits."""

    is_continuous = False

    def __init__(self, each_choices: Sequence[int]) -> None:
        self.outputs = sum(each_choices)
        self._each = list(each_choices)
        self._heads = [ChoiceHead(choices) for choices in each_choices]

    def draw(
        self, outputs: Tensor, log_std: Tensor | None, random: Generator
    ) -> tuple[Tensor, Tensor]:
        """Return ``[B, n]`` int64 choices and their joint logprobs."""
        logits = outputs.split(self._each, dim=-1)
        drawn = [
            head.draw(one, log_std, random) for head, one in zip(self._heads, logits, strict=True)
        ]
        actions, logprobs = zip(*drawn, strict=True)
        return torch.stack(actions, dim=-1), torch.stack(logprobs).sum(0)

    def most_likely(self, outputs: Tensor) -> Tensor:
        return torch.stack(
            [one.argmax(dim=-1) for one in outputs.split(self._each, dim=-1)], dim=-1
        )

    def logprob(self, outputs: Tensor, log_std: Tensor | None, actions: Tensor) -> Tensor:
        logits = outputs.split(self._each, dim=-1)
        each = zip(self._heads, logits, actions.unbind(-1), strict=True)
        return torch.stack([head.logprob(one, log_std, chosen) for head, one, chosen in each]).sum(
            0
        )


def head_for(action: Space) -> Head:
    """Return the distribution for an action space."""
    if action.kind == "box":
        return GaussianHead(action.shape)
    if action.kind == "multi_discrete":
        return ChoicesHead(action.each_choices)
    return ChoiceHead(action.choices)


def _gaussian(noise: Tensor, log_std: Tensor) -> Tensor:
    """Return the log density of ``noise`` standard deviations, summed over the last axis."""
    return (-0.5 * (noise.square() + LOG_2_PI) - log_std).sum(-1)


def _given(log_std: Tensor | None) -> Tensor:
    if log_std is None:
        raise ValueError("continuous actions need a log_std")
    return log_std


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

        `module` is a template with names, shapes and types of the weights; its values are not used.
        The device ``auto`` is a GPU if there is one. The network computes in `precision`:
        ``float32``, ``bfloat16`` or ``float16``.

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
