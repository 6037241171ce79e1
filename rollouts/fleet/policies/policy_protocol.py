"""Say what a policy is to a rollout worker, without any framework.

A worker starts its environments before it imports one: that takes seconds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from rollouts.fleet.policies.spaces import Space

State = Mapping[str, NDArray[Any]]
"""Recurrent state by name, each ``[B, …]``; empty for policies that keep none."""
NAMED_AT_MOST: Final = 8
"""Parameters that a message lists; a refusal's event lists more."""
Shape = tuple[int, ...]


class WeightsDoNotFit(ValueError):
    """The tensors are not those of the policy; `parameters` says how each differs, where known."""

    def __init__(self, message: str, parameters: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.parameters = dict(parameters or {})

    @classmethod
    def between(cls, wanted: Mapping[str, Shape], given: Mapping[str, Shape]) -> Self:
        """Return what to raise when the shapes `given` by name are not those `wanted`."""
        differing = sorted(dict(wanted.items() ^ given.items()))
        flaws = {name: _flaw(wanted.get(name), given.get(name)) for name in differing}
        named = [f"{name[:120]} {flaw}" for name, flaw in flaws.items()][:NAMED_AT_MOST]
        more = len(flaws) - len(named)
        rest = f", and {more} more" if more else ""
        return cls(f"names or shapes differ: {', '.join(named)}{rest}", flaws)


class WeightsNotTaken(RuntimeError):
    """What draws did not take weights for now: it is away, or refuses them; worth another try."""


class PolicyDoesNotFit(ValueError):
    """The configured policy cannot act in the environment; `field` is what to change."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field


class NoWeights(RuntimeError):
    """A policy must not act before it was given weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What a policy chose for B observations."""

    actions: NDArray[Any]
    """``[B]`` int64 for discrete actions, ``[B, …]`` float32 otherwise."""
    logprobs: NDArray[np.float32]
    """``[B]``, natural log."""
    values: NDArray[np.float32]
    """``[B]``."""
    state: State = field(default_factory=dict)


class TakesWeights(Protocol):
    """Whatever acts with weights that change."""

    def prepare(self, tensors: Mapping[str, NDArray[Any]]) -> Any:
        """Return these weights in the form that `adopt` takes; may take its time.

        Any thread may call it, at any moment: nothing that acts is touched.

        Raises:
            WeightsDoNotFit: If names or shapes are not the policy's own.
        """

    def adopt(self, prepared: Any) -> None:
        """Act with what `prepare` returned from now on; recurrent state stays what it is.

        Called between two inferences by the thread that acts; takes microseconds.
        """


class Policy(TakesWeights, Protocol):
    """Acts on batches of observations with the weights it was last given."""

    def initial_state(self, batch: int) -> State:
        """Return the state at the start of `batch` episodes."""

    def act(self, obs: NDArray[Any], state: State, first: NDArray[np.bool_]) -> Decision:
        """Choose actions for ``obs [B, …]``; `first` marks where an episode begins."""


def for_environment(actions: NDArray[Any], space: Space) -> NDArray[Any]:
    """Return what the environments get for a policy's ``actions [B, …]``: inside bounds."""
    if space.kind == "discrete":
        return actions + space.start if space.start else actions
    if space.kind == "multi_discrete":
        return actions
    if not space.low:
        return _rounded(actions, space.dtype)
    low = np.asarray(space.low, dtype=actions.dtype).reshape(space.shape)
    high = np.asarray(space.high, dtype=actions.dtype).reshape(space.shape)
    return np.clip(actions, low, high).astype(space.dtype, copy=False)


def _rounded(actions: NDArray[Any], dtype: str) -> NDArray[Any]:
    """Return numbers as `dtype`; what whole numbers of that type cannot hold ends at its limits."""
    if np.issubdtype(dtype, np.integer):
        limits = np.iinfo(dtype)
        actions = np.clip(actions, float(limits.min), float(limits.max))
    return actions.astype(dtype, copy=False)


def _flaw(wanted: Shape | None, given: Shape | None) -> str:
    if given is None or wanted is None:
        return "is missing" if given is None else "is unknown"
    return f"is {list(given)}, not {list(wanted)}"
