"""Built-in policies: multi-layer perceptrons, convolutions for images, and a recurrent unit."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rollouts.fleet.policies.base import TorchPolicy
from rollouts.fleet.policies.inputs import images, others, vectors
from rollouts.fleet.policies.policy_protocol import State

HIDDEN: Final = "hidden"
"""Name of the state; fragments store it as ``in_state.hidden``."""


def linear(inputs: int, units: int, gain: float) -> nn.Linear:
    """Return a dense layer with weights of scale `gain` and zero bias."""
    layer = nn.Linear(inputs, units)
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


def tanh_mlp(sizes: Sequence[int], gain: float) -> nn.Sequential:
    """Return a tanh MLP whose last layer is linear, with weights of scale `gain`.

    The sizes are the inputs, the units of each hidden layer, and the outputs.
    """
    return nn.Sequential(*tanh_layers(sizes[:-1]), linear(sizes[-2], sizes[-1], gain))


def tanh_layers(sizes: Sequence[int]) -> list[nn.Module]:
    """Return dense layers, each followed by tanh; `sizes` are the inputs and units per layer."""
    layers: list[nn.Module] = []
    for inputs, units in pairwise(sizes):
        layers += [linear(inputs, units, math.sqrt(2)), nn.Tanh()]
    return layers


class MlpPolicy(nn.Module):
    """Separate policy and value networks.

    Its tensors are ``policy_net.<2i>.{weight,bias}`` and ``value_net.<2i>.{weight,bias}`` for
    layer i, and ``log_std`` for continuous actions.
    """

    def __init__(
        self,
        observation_size: int,
        action_size: int,
        hidden_sizes: Sequence[int],
        *,
        is_continuous: bool = False,
    ) -> None:
        """Initialize with orthogonal weights.

        `action_size` is the number of choices, or the size of a flat action. Continuous actions
        follow a Gaussian with a learned standard deviation.
        """
        super().__init__()
        self.policy_net = tanh_mlp([observation_size, *hidden_sizes, action_size], 0.01)
        self.value_net = tanh_mlp([observation_size, *hidden_sizes, 1], 1.0)
        if is_continuous:
            self.log_std = nn.Parameter(torch.zeros(action_size))

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits or means ``[…, action_size]`` and values ``[…]``."""
        return self.policy_net(obs), self.value_net(obs).squeeze(-1)


class TorchMlp(TorchPolicy):
    """An :class:`MlpPolicy` in a rollout worker; observations are flattened."""

    def _run(
        self,
        module: nn.Module,
        obs: NDArray[Any],
        state: State,  # noqa: ARG002 base class
        first: NDArray[np.bool_],  # noqa: ARG002 base class
    ) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        outputs, values = module(vectors(self._observation, obs).to(self._device))
        return outputs, values, {}


class ImageEncoder(nn.Module):
    """Convolutions that halve the image, then dense layers, each followed by ReLU.

    Its tensors are ``convolutions.<2i>.{weight,bias}`` for convolution i (3 × 3, stride 2,
    padding 1) and ``dense.<2i>.{weight,bias}`` for dense layer i. The first dense layer takes
    the flat ``[C, H, W]`` of the last convolution, followed by the `others`.
    """

    def __init__(
        self,
        image_shape: tuple[int, int, int],
        other_size: int,
        *,
        channels: Sequence[int],
        hidden_sizes: Sequence[int],
    ) -> None:
        """Initialize with orthogonal weights.

        The shape is height, width and channels; `other_size` is the number of values besides the
        image.
        """
        super().__init__()
        height, width, depth = image_shape
        layers: list[nn.Module] = []
        for before, after in pairwise([depth, *channels]):
            convolution = nn.Conv2d(before, after, kernel_size=3, stride=2, padding=1)
            nn.init.orthogonal_(convolution.weight, math.sqrt(2))
            nn.init.zeros_(convolution.bias)
            layers += [convolution, nn.ReLU()]
            height, width = (height + 1) // 2, (width + 1) // 2
        self.convolutions = nn.Sequential(*layers)
        dense: list[nn.Module] = []
        flat = channels[-1] * height * width + other_size
        for before, after in pairwise([flat, *hidden_sizes]):
            dense += [linear(before, after, math.sqrt(2)), nn.ReLU()]
        self.dense = nn.Sequential(*dense)
        self.outputs = hidden_sizes[-1]

    def forward(self, image: Tensor, rest: Tensor | None = None) -> Tensor:
        """Return ``[…, outputs]`` for bytes ``image […, H, W, C]`` and ``rest […, others]``."""
        leading = image.shape[:-3]
        pixels = image.reshape(-1, *image.shape[-3:]).permute(0, 3, 1, 2).float() / 255
        seen = self.convolutions(pixels).flatten(1)
        if rest is not None and rest.shape[-1]:
            seen = torch.cat([seen, rest.reshape(len(seen), -1)], dim=-1)
        found: Tensor = self.dense(seen)
        return found.reshape(*leading, self.outputs)


class ConvolutionalPolicy(nn.Module):
    """One image encoder with a policy head and a value head.

    Its tensors are those of the :class:`ImageEncoder` under ``encoder.``,
    ``policy_head.{weight,bias}``, ``value_head.{weight,bias}``, and ``log_std`` for continuous
    actions.
    """

    def __init__(
        self, encoder: ImageEncoder, action_size: int, *, is_continuous: bool = False
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.policy_head = linear(encoder.outputs, action_size, 0.01)
        self.value_head = linear(encoder.outputs, 1, 1.0)
        if is_continuous:
            self.log_std = nn.Parameter(torch.zeros(action_size))

    def forward(self, image: Tensor, rest: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return outputs ``[…, action_size]`` and values ``[…]`` for ``image […, H, W, C]``."""
        found = self.encoder(image, rest)
        return self.policy_head(found), self.value_head(found).squeeze(-1)


class TorchConvolutional(TorchPolicy):
    """A :class:`ConvolutionalPolicy` in a rollout worker."""

    def _run(
        self,
        module: nn.Module,
        obs: NDArray[Any],
        state: State,  # noqa: ARG002 base class
        first: NDArray[np.bool_],  # noqa: ARG002 base class
    ) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        space = self._observation
        outputs, values = module(
            images(space, obs).to(self._device), others(space, obs).to(self._device)
        )
        return outputs, values, {}


class RecurrentPolicy(nn.Module):
    """Encoder, :class:`torch.nn.GRUCell` and two heads.

    Its tensors are ``encoder.<2i>.{weight,bias}`` for dense layer i (or those of an
    :class:`ImageEncoder` for images), ``memory.{weight_ih,weight_hh,bias_ih,bias_hh}``,
    ``policy_head.{weight,bias}``, ``value_head.{weight,bias}``, and ``log_std`` for continuous
    actions.
    """

    def __init__(
        self,
        encoder: int | ImageEncoder,
        action_size: int,
        *,
        hidden_sizes: Sequence[int],
        recurrent_units: int,
        is_continuous: bool = False,
    ) -> None:
        """Initialize with orthogonal weights, and PyTorch's defaults in the recurrent unit.

        `encoder` is the size of a flat observation, or an encoder of images. The dense layers of
        `hidden_sizes` are before the recurrent unit.
        """
        super().__init__()
        if isinstance(encoder, int):
            self.encoder: nn.Module = nn.Sequential(*tanh_layers([encoder, *hidden_sizes]))
        else:
            self.encoder = encoder
        self.memory = nn.GRUCell(hidden_sizes[-1], recurrent_units)
        self.policy_head = linear(recurrent_units, action_size, 0.01)
        self.value_head = linear(recurrent_units, 1, 1.0)
        if is_continuous:
            self.log_std = nn.Parameter(torch.zeros(action_size))

    def forward(
        self, obs: Tensor | tuple[Tensor, Tensor], hidden: Tensor, first: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Run T steps of B slots.

        Args:
            obs: ``[T, B, numbers]``; for images, the encoder's two inputs.
            hidden: ``[B, recurrent_units]``, the state before the first step.
            first: ``[T, B]`` bool; the state is reset before a step that begins an episode.

        Returns:
            Outputs ``[T, B, action_size]``, values ``[T, B]`` and the state after the last step.
        """
        encoded = self.encoder(*obs) if isinstance(obs, tuple) else self.encoder(obs)
        going_on = (~first).to(encoded.dtype).unsqueeze(-1)
        states = []
        for step, inputs in enumerate(encoded):
            hidden = self.memory(inputs, hidden * going_on[step])
            states.append(hidden)
        remembered = torch.stack(states)
        return self.policy_head(remembered), self.value_head(remembered).squeeze(-1), hidden


class TorchRecurrent(TorchPolicy):
    """A :class:`RecurrentPolicy` in a rollout worker."""

    def initial_state(self, batch: int) -> State:
        """Return ``hidden [batch, recurrent_units]`` of zeros."""
        units = self._template.get_parameter("memory.weight_hh").shape[1]
        return {HIDDEN: np.zeros((batch, units), dtype=np.float32)}

    def _run(
        self, module: nn.Module, obs: NDArray[Any], state: State, first: NDArray[np.bool_]
    ) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        hidden = torch.from_numpy(state[HIDDEN]).to(self._device)
        begins = torch.from_numpy(first).to(self._device)
        space = self._observation
        seen: Tensor | tuple[Tensor, Tensor]
        if isinstance(module.encoder, ImageEncoder):
            picture, rest = images(space, obs)[None], others(space, obs)[None]
            seen = picture.to(self._device), rest.to(self._device)
        else:
            seen = vectors(space, obs)[None].to(self._device)
        outputs, values, after = module(seen, hidden, begins[None])
        return outputs[0], values[0], {HIDDEN: after}
