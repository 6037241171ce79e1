"""Choose actions with torch: the policies that a fleet and its trainer share.

A trainer publishes the state of :class:`MlpPolicy`; a trainer in another framework only has to
use the same tensor names: ``policy_net.<2i>.{weight,bias}`` and ``value_net.<2i>.{weight,bias}``
for layer i, and ``log_std`` where actions are continuous.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rollouts.fleet.acting import Decision, State, WeightsDoNotFit
from rollouts.fleet.environments import Space


def tower(sizes: Sequence[int], gain: float) -> nn.Sequential:
    """Return a tanh MLP with orthogonal weights.

    Args:
        sizes: Inputs, units of each hidden layer, outputs.
        gain: Scale of the last layer's weights.
    """
    layers: list[nn.Module] = []
    for index, (inputs, units) in enumerate(pairwise(sizes)):
        is_last = index == len(sizes) - 2
        linear = nn.Linear(inputs, units)
        nn.init.orthogonal_(linear.weight, gain if is_last else math.sqrt(2))
        nn.init.zeros_(linear.bias)
        layers += [linear] if is_last else [linear, nn.Tanh()]
    return nn.Sequential(*layers)


class MlpPolicy(nn.Module):
    """Separate policy and value towers."""

    def __init__(
        self,
        observation_size: int,
        action_size: int,
        hidden_sizes: Sequence[int],
        *,
        is_continuous: bool = False,
    ) -> None:
        """Begin with orthogonal weights.

        Args:
            observation_size: Numbers in one flat observation.
            action_size: Choices, or numbers in one flat action.
            hidden_sizes: Units of each hidden layer of both towers.
            is_continuous: Actions are drawn from a Gaussian with a spread of its own.
        """
        super().__init__()
        self.policy_net = tower([observation_size, *hidden_sizes, action_size], 0.01)
        self.value_net = tower([observation_size, *hidden_sizes, 1], 1.0)
        if is_continuous:
            self.log_std = nn.Parameter(torch.zeros(action_size))

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits or means ``[…, action_size]`` and values ``[…]``."""
        return self.policy_net(obs), self.value_net(obs).squeeze(-1)


class TorchMlp:
    """An :class:`MlpPolicy` at work in a rollout worker."""

    def __init__(
        self,
        observation: Space,
        action: Space,
        *,
        hidden_sizes: Sequence[int],
        seed: int,
        device: str = "auto",
    ) -> None:
        """Begin with weights that must not be used: call `load` first.

        Args:
            observation: Form of observations; boxes are flattened.
            action: Form of actions.
            hidden_sizes: Units of each hidden layer.
            seed: Of the draws.
            device: ``auto`` takes a GPU if there is one.
        """
        # One worker is one core: more threads would only fight with the other workers.
        torch.set_num_threads(1)
        name = ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device
        self._device = torch.device(name)
        self._action = action
        self._is_continuous = action.kind == "box"
        self._observation = observation
        self._module = MlpPolicy(
            observation.size, action.size, hidden_sizes, is_continuous=self._is_continuous
        ).to(self._device)
        self._random = torch.Generator(device=self._device).manual_seed(seed)

    def initial_state(self, batch: int) -> State:  # noqa: ARG002 the protocol's
        """Return nothing: the policy remembers nothing."""
        return {}

    def act(self, obs: NDArray[Any], state: State, first: NDArray[np.bool_]) -> Decision:  # noqa: ARG002
        """Draw an action for each of ``obs [B, …]``."""
        with torch.inference_mode():
            outputs, values = self._module(self._inputs(obs))
            draw = self._draw_continuous if self._is_continuous else self._draw_discrete
            actions, logprobs = draw(outputs)
            return Decision(
                actions=actions.cpu().numpy(),
                logprobs=logprobs.cpu().numpy(),
                values=values.cpu().numpy(),
            )

    def load(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        """Take new weights, whole or not at all.

        Raises:
            WeightsDoNotFit: If names or shapes are not the policy's own.
        """
        wanted = {name: tuple(value.shape) for name, value in self._module.state_dict().items()}
        given = {name: tuple(value.shape) for name, value in tensors.items()}
        if wanted != given:
            differing = sorted(dict(wanted.items() ^ given.items()))
            raise WeightsDoNotFit(f"names or shapes differ: {', '.join(differing[:8])}")
        # A copy: the arrays may be read-only views of a download.
        state = {name: torch.from_numpy(np.array(value)) for name, value in tensors.items()}
        self._module.load_state_dict(state)

    def _inputs(self, obs: NDArray[Any]) -> Tensor:
        if self._observation.kind == "discrete":
            indices = torch.from_numpy(np.asarray(obs, dtype=np.int64))
            flat = nn.functional.one_hot(indices - self._observation.start, self._observation.size)
        else:
            flat = torch.from_numpy(np.ascontiguousarray(obs).reshape(len(obs), -1))
        return flat.to(self._device, torch.float32)

    def _draw_discrete(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        logprobs = torch.log_softmax(logits, dim=-1)
        # The largest of logprob + Gumbel noise is distributed as the softmax.
        noise = torch.empty_like(logprobs).exponential_(generator=self._random).log_()
        chosen = (logprobs - noise).argmax(dim=-1)
        return chosen, logprobs.gather(-1, chosen[:, None]).squeeze(-1)

    def _draw_continuous(self, means: Tensor) -> tuple[Tensor, Tensor]:
        log_std = self._module.log_std
        noise = torch.empty_like(means).normal_(generator=self._random)
        per_number = -0.5 * (noise.square() + math.log(2 * math.pi)) - log_std
        flat = means + noise * log_std.exp()
        return flat.reshape(-1, *self._action.shape), per_number.sum(-1)
