"""Interface of a policy for rollout workers, independent of any framework.

A worker starts its environments before it imports a framework, which takes seconds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from rollouts.fleet.policies.spaces import Space

State = Mapping[str, NDArray[Any]]
"""Recurrent state by name, each ``[B, …]``; empty for stateless policies."""
NAMED_AT_MOST: Final = 8
"""Maximum number of parameters in a message; the refusal's event lists more."""
Shape = tuple[int, ...]


class WeightsDoNotFit(ValueError):
    """The tensors do not match the policy; `parameters` holds the differences, where known."""

    def __init__(self, message: str, parameters: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.parameters = dict(parameters or {})

    @classmethod
    def between(cls, expected: Mapping[str, Shape], given: Mapping[str, Shape]) -> Self:
        """Return the error for shapes `given` by name that differ from those `expected`."""
        flaws = {}
        for name in sorted(dict(expected.items() ^ given.items())):
            if name in expected and name in given:
                flaws[name] = f"is {list(given[name])}, expected {list(expected[name])}"
            else:
                flaws[name] = "is missing" if name in expected else "is unknown"
        named = [f"{name[:120]} {flaw}" for name, flaw in flaws.items()][:NAMED_AT_MOST]
        more = len(flaws) - len(named)
        rest = f", and {more} more" if more else ""
        return cls(f"names or shapes differ: {', '.join(named)}{rest}", flaws)


class WeightsRejected(RuntimeError):
    """The sampler is unreachable or refuses the weights for now; a retry may succeed.

    `active` is the version that it uses nevertheless, if some of its replicas have taken it.
    """

    def __init__(self, message: str, active: tuple[int, int] | None = None) -> None:
        super().__init__(message)
        self.active = active


class PolicyDoesNotFit(ValueError):
    """The configured policy cannot act in the environment; `field` names the setting to change."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field


class NoWeights(RuntimeError):
    """The policy was used before it had weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Actions of a policy for B observations."""

    actions: NDArray[Any]
    """``[B]`` int64 for discrete actions, ``[B, …]`` float32 otherwise."""
    logprobs: NDArray[np.float32]
    """``[B]``, natural log."""
    values: NDArray[np.float32]
    """``[B]``."""
    state: State = field(default_factory=dict)

    def of(self, rows: NDArray[np.intp]) -> "Decision":
        return Decision(
            actions=self.actions[rows],
            logprobs=self.logprobs[rows],
            values=self.values[rows],
            state={name: state[rows] for name, state in self.state.items()},
        )


class WeightsConsumer(Protocol):
    """Interface of a consumer of changing weights."""

    def prepare(self, tensors: Mapping[str, NDArray[Any]]) -> Any:
        """Convert weights to the form that `adopt` takes; may be slow.

        Any thread may call it at any time, without effect on the weights in use.

        Raises:
            WeightsDoNotFit: If names or shapes do not match the policy.
        """

    def adopt(self, prepared: Any) -> None:
        """Use prepared weights from now on; recurrent state is unchanged.

        The acting thread calls it between two inferences; it takes microseconds.
        """


class Policy(WeightsConsumer, Protocol):
    """Policy that acts on batches of observations with the adopted weights."""

    def initial_state(self, batch: int) -> State:
        """Return the state at the start of `batch` episodes."""

    def act(self, obs: NDArray[Any], state: State, first: NDArray[np.bool_]) -> Decision:
        """Choose actions for ``obs [B, …]``; `first` marks the starts of episodes."""


def for_environment(actions: NDArray[Any], space: Space) -> NDArray[Any]:
    """Convert a policy's ``actions [B, …]`` to the environment's range and type.

    Without bounds, they are clipped to the limits of integer types.
    """
    if space.kind == "discrete":
        return actions + space.start if space.start else actions
    if space.kind == "multi_discrete":
        return actions
    if not space.low:
        if np.issubdtype(space.dtype, np.integer):
            limits = np.iinfo(space.dtype)
            actions = np.clip(actions, float(limits.min), float(limits.max))
        return actions.astype(space.dtype, copy=False)
    low = np.asarray(space.low, dtype=actions.dtype).reshape(space.shape)
    high = np.asarray(space.high, dtype=actions.dtype).reshape(space.shape)
    return np.clip(actions, low, high).astype(space.dtype, copy=False)
