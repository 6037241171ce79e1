"""Convolutional policies for images, and their encoder."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rollouts.fleet.policies.base import TorchPolicy
from rollouts.fleet.policies.inputs import images, others
from rollouts.fleet.policies.layers import linear
from rollouts.fleet.policies.policy_protocol import State


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

        Args:
            image_shape: Height, width and channels.
            other_size: Number of values besides the image.
            channels: Channels of each convolution.
            hidden_sizes: Units of each dense layer.
        """
        super().__init__()
        height, width, depth = image_shape
        layers: list[nn.Module] = []
        for before, after in pairwise([depth, *channels]):
            layers += [_convolution(before, after), nn.ReLU()]
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
        """Initialize with orthogonal weights.

        Args:
            encoder: Encoder of observations.
            action_size: Number of outputs of the policy head.
            is_continuous: Whether actions follow a Gaussian with a learned standard deviation.
        """
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


def _convolution(before: int, after: int) -> nn.Conv2d:
    layer = nn.Conv2d(before, after, kernel_size=3, stride=2, padding=1)
    nn.init.orthogonal_(layer.weight, math.sqrt(2))
    nn.init.zeros_(layer.bias)
    return layer
