"""Recurrent policy: a gated recurrent unit between an encoder and two heads."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rollouts.fleet.policies.base import TorchPolicy
from rollouts.fleet.policies.convolutional import ImageEncoder
from rollouts.fleet.policies.inputs import images, others, vectors
from rollouts.fleet.policies.layers import linear, tanh_layers
from rollouts.fleet.policies.policy_protocol import State

HIDDEN: Final = "hidden"
"""Name of the state; fragments store it as ``in_state.hidden``."""


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

        Args:
            encoder: Size of a flat observation, or an encoder of images.
            action_size: Number of outputs of the policy head.
            hidden_sizes: Units of each dense layer before the recurrent unit.
            recurrent_units: Units of the recurrent unit.
            is_continuous: Whether actions follow a Gaussian with a learned standard deviation.
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
        outputs, values, after = module(self._inputs(module, obs), hidden, begins[None])
        return outputs[0], values[0], {HIDDEN: after}

    def _inputs(self, module: nn.Module, obs: NDArray[Any]) -> Tensor | tuple[Tensor, Tensor]:
        space = self._observation
        if not isinstance(module.encoder, ImageEncoder):
            return vectors(space, obs)[None].to(self._device)
        return (
            images(space, obs)[None].to(self._device),
            others(space, obs)[None].to(self._device),
        )
