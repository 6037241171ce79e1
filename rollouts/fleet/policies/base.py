"""Do what every torch policy does in a rollout worker: take weights, act, keep its device."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from copy import copy
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rollouts.fleet.policies.heads import head_for
from rollouts.fleet.policies.policy_protocol import (
    Decision,
    NoWeights,
    PolicyDoesNotFit,
    State,
    WeightsDoNotFit,
)
from rollouts.fleet.policies.spaces import Space

BIT_DTYPES: Final = {
    "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
}


class TorchPolicy(ABC):
    """A torch module at work in a rollout worker.

    The module it is given is only a template and never acts: each version of the weights gets a
    module of its own in `prepare`, and `adopt` makes that the acting one.
    """

    def __init__(
        self,
        module: nn.Module,
        *,
        observation: Space,
        action: Space,
        seed: int,
        device: str = "auto",
    ) -> None:
        """Have no weights yet.

        Args:
            module: Names, shapes and types of the weights; its values are never used.
            observation: Form of observations.
            action: Form of actions.
            seed: Of the draws.
            device: ``auto`` takes a GPU if there is one.

        Raises:
            PolicyDoesNotFit: If the device is not there.
        """
        # One worker is one core: more threads would only fight with the other workers.
        torch.set_num_threads(1)
        self._device = device_of(device)
        self._observation = observation
        self._head = head_for(action)
        self._template = module.to("meta")
        self._acting: nn.Module | None = None
        self._random = torch.Generator(device=self._device).manual_seed(seed)

    def initial_state(self, batch: int) -> State:  # noqa: ARG002 the protocol's
        """Return nothing: the policy remembers nothing."""
        return {}

    def act(self, obs: NDArray[Any], state: State, first: NDArray[np.bool_]) -> Decision:
        """Draw an action for each of ``obs [B, …]``.

        Raises:
            NoWeights: If none were adopted yet.
        """
        module = self._acting
        if module is None:
            raise NoWeights("the policy was asked to act before it had weights")
        with torch.inference_mode():
            outputs, values, after = self._run(module, obs, state, first)
            log_std = module.log_std if self._head.is_continuous else None
            actions, logprobs = self._head.draw(outputs, log_std, self._random)
            return Decision(
                actions=actions.cpu().numpy(),
                logprobs=logprobs.cpu().numpy(),
                values=values.cpu().numpy(),
                state={name: rows.cpu().numpy() for name, rows in after.items()},
            )

    def prepare(self, tensors: Mapping[str, NDArray[Any]]) -> nn.Module:
        """Return a module with these weights on the policy's device; from any thread.

        On a CPU the module acts with the very bytes of arrays that nobody can write to: all
        workers of a node then hold one copy of the weights, in the cluster's object store.

        Raises:
            WeightsDoNotFit: If names or shapes are not the policy's own.
        """
        wanted = self._template.state_dict()
        _check(wanted, tensors)
        tensors_of = {
            name: _placed(tensor_of(value), self._device, wanted[name].dtype)
            for name, value in tensors.items()
        }
        return _with_weights(self._template, tensors_of)

    def adopt(self, prepared: nn.Module) -> None:
        """Act with what `prepare` returned from now on; recurrent state is kept."""
        self._acting = prepared

    def load(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        """Prepare and adopt at once.

        Raises:
            WeightsDoNotFit: If names or shapes are not the policy's own.
        """
        self.adopt(self.prepare(tensors))

    @abstractmethod
    def _run(
        self, module: nn.Module, obs: NDArray[Any], state: State, first: NDArray[np.bool_]
    ) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """Return outputs ``[B, outputs]``, values ``[B]`` and the state after this step."""


def device_of(asked: str) -> torch.device:
    """Return the device that a configuration asks for.

    Raises:
        PolicyDoesNotFit: If it is not there.
    """
    has_gpu = torch.cuda.is_available()
    if asked == "cuda" and not has_gpu:
        raise PolicyDoesNotFit("fleet.device", "cuda was asked for, but torch finds no GPU here")
    return torch.device(("cuda" if has_gpu else "cpu") if asked == "auto" else asked)


def _placed(tensor: Tensor, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Return `tensor` there and in that type; itself if it is, without asking torch.

    Whatever torch is asked to do, it lets go of Python's lock for: beside a thread that acts, the
    lock takes milliseconds to come back.
    """
    if tensor.device == device and tensor.dtype == dtype:
        return tensor
    return tensor.to(device, dtype)


def _with_weights(module: nn.Module, tensors: Mapping[str, Tensor], prefix: str = "") -> nn.Module:
    """Return a module with weights of its own, by name, that shares all else with `module`.

    A deep copy of an empty module takes longer than all the rest of `prepare`, and so does
    `load_state_dict` beside a thread that acts; see `_placed`.
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
        # Torch's own recurrent layers list their weights a second time.
        own["_flat_weights"] = [getattr(made, name, None) for name in own["_flat_weights_names"]]
    return made


def tensor_of(array: NDArray[Any]) -> Tensor:
    """Return an array as a tensor of the same numbers; see `shared` for whose memory it has.

    Args:
        array: Of numbers that numpy has, or of the bits of others
            (:data:`rolldeck.safetensors.BITS`).
    """
    if array.dtype.names is None:
        return torch.from_numpy(shared(array))
    (kind,) = array.dtype.names
    bits = array.view(np.int16 if array.dtype.itemsize == 2 else np.uint8)
    return torch.from_numpy(shared(bits)).view(BIT_DTYPES[kind])


def shared(array: NDArray[Any]) -> NDArray[Any]:
    """Return `array` in a form that torch takes: the same memory if nobody can write to it.

    Otherwise a copy: its owner, a trainer perhaps, may write to it at any time.
    """
    flags = array.flags
    if flags.writeable or not (flags.c_contiguous and flags.aligned and array.dtype.isnative):
        return np.array(array, dtype=array.dtype.newbyteorder("="))
    return np.asarray(_Lent(array))


class _Lent:
    """Lends an array's memory as if it were writable.

    Torch warns of tensors that nobody can write to; weights that act are never written to.
    """

    def __init__(self, array: NDArray[Any]) -> None:
        self._array = array
        described = array.__array_interface__
        self.__array_interface__ = {**described, "data": (described["data"][0], False)}


def _check(wanted: Mapping[str, Tensor], given: Mapping[str, NDArray[Any]]) -> None:
    wanted_shapes = {name: tuple(value.shape) for name, value in wanted.items()}
    given_shapes = {name: tuple(value.shape) for name, value in given.items()}
    if wanted_shapes != given_shapes:
        raise WeightsDoNotFit.between(wanted_shapes, given_shapes)
