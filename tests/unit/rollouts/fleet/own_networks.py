"""Networks of other packages, good and faulty, as fleets get them."""

from typing import Any

import torch
from torch import Tensor, nn

Step = tuple[Any, Any, dict[str, Tensor]]


class Plain(nn.Module):
    """Logits of a dense layer; no value and no state."""

    def __init__(self, observation: Any, action: Any, *, bias: bool = True) -> None:
        super().__init__()
        self.layer = nn.Linear(observation.size, action.choices, bias=bias)
        # Neither is in the state_dict: a list hides its module, a buffer may be left out.
        self.stack = [self.layer]
        self.register_buffer("scale", torch.tensor(2.0), persistent=False)

    def forward(self, obs: Tensor, state: dict[str, Tensor], first: Tensor) -> Step:
        del first
        for layer in self.stack:
            obs = layer(obs.float())
        return obs * self.scale, None, state


class Parts(nn.Module):
    """A sum over the parts of an observation."""

    def __init__(self, observation: Any, action: Any) -> None:
        super().__init__()
        self.head = nn.Linear(len(observation.parts), action.choices)

    def forward(self, obs: dict[str, Tensor], state: dict[str, Tensor], first: Tensor) -> Step:
        sums = torch.stack([rows.float().reshape(len(rows), -1).sum(1) for rows in obs.values()], 1)
        return self.head(sums), torch.zeros(len(first)), state


class Bounded(nn.Module):
    """Continuous actions from a Beta distribution."""

    def __init__(self, observation: Any, action: Any) -> None:
        super().__init__()
        self.head = nn.Linear(observation.size, 2 * action.size)

    def forward(self, obs: Tensor, state: dict[str, Tensor], first: Tensor) -> Step:
        return self.head(obs), torch.zeros(len(first)), state

    def distribution(self, outputs: Tensor) -> torch.distributions.Distribution:
        alpha, beta = nn.functional.softplus(outputs).add(1.0).chunk(2, dim=-1)
        return torch.distributions.Beta(alpha, beta)


class Gaussian(Plain):
    """Means of continuous actions, without `log_std`."""

    def __init__(self, observation: Any, action: Any) -> None:
        nn.Module.__init__(self)
        self.layer = nn.Linear(observation.size, action.size)


class WrongOutputs(Plain):
    def forward(self, obs: Tensor, state: dict[str, Tensor], first: Tensor) -> Step:
        del obs
        return torch.zeros(len(first), 3), None, state


class WrongValues(Plain):
    def forward(self, obs: Tensor, state: dict[str, Tensor], first: Tensor) -> Step:
        return super().forward(obs, state, first)[0], torch.zeros(len(first), 1), state


class LosesState(Plain):
    def initial_state(self, batch: int) -> dict[str, Tensor]:
        return {"h": torch.zeros(batch, 2)}

    def forward(self, obs: Tensor, state: dict[str, Tensor], first: Tensor) -> Step:
        return super().forward(obs, state, first)[0], None, {}


class OnlyOutputs(Plain):
    def forward(self, obs: Tensor, state: dict[str, Tensor], first: Tensor) -> Any:
        return super().forward(obs, state, first)[0]


class RaisesInStep(Plain):
    def forward(self, obs: Tensor, state: dict[str, Tensor], first: Tensor) -> Any:
        del obs, state, first
        raise ZeroDivisionError("no step")


class Raises:
    def __init__(self, observation: Any, action: Any) -> None:
        del observation, action
        raise ZeroDivisionError("no network")


def no_module(observation: Any, action: Any) -> str:
    return "a network"
