"""Reference fragment builder for one env slot, for comparison with the vectorized one.

It holds the invariants of :mod:`rollouts.fleet.steps.fragments`, step by step.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rolldeck.wire import Array, Fragment, pack_array

_MARKS: Final = ("reward", "first", "terminated", "truncated", "info.speed")
"""Columns that padding does not repeat."""
_PER_STEP: Final = (
    *_MARKS,
    *("obs", "action", "behavior_logprob", "value", "policy_step", "episode_index"),
)


class Outcome(NamedTuple):
    """Outcome of the last action of a slot."""

    reward: float
    terminated: bool = False
    truncated: bool = False
    final_obs: NDArray[Any] | None = None
    """Last observation of the episode that ended, if it ended."""
    speed: float = math.nan
    """Value of the stored key `speed` of `info`."""


class NotObserved(RuntimeError):
    """A step needs an observation to act on; the slot has none."""


@dataclass(slots=True)
class _Steps:
    """Columns of the steps since the last cut; outcomes are at most one step behind."""

    obs: list[NDArray[Any]] = field(default_factory=list)
    action: list[Any] = field(default_factory=list)
    first: list[bool] = field(default_factory=list)
    logprob: list[float] = field(default_factory=list)
    value: list[float] = field(default_factory=list)
    policy_step: list[int] = field(default_factory=list)
    episode_id: list[str] = field(default_factory=list)
    reward: list[float] = field(default_factory=list)
    terminated: list[bool] = field(default_factory=list)
    truncated: list[bool] = field(default_factory=list)
    speed: list[float] = field(default_factory=list)
    finals: list[tuple[int, NDArray[Any]]] = field(default_factory=list)
    in_state: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def end(self, outcome: Outcome) -> None:
        """Record the outcome of the last step."""
        if outcome.final_obs is not None:
            self.finals.append((len(self.reward), outcome.final_obs))
        self.reward.append(outcome.reward)
        self.terminated.append(outcome.terminated)
        self.truncated.append(outcome.truncated)
        self.speed.append(outcome.speed)

    def remove_action(self) -> None:
        """Remove the last action, which has no outcome."""
        columns = (self.obs, self.action, self.first, self.logprob, self.value)
        for column in (*columns, self.policy_step, self.episode_id):
            column.pop()


class OneSlotCutter:
    """Builds fragments from the steps of one env slot."""

    def __init__(self, *, slot: str, environment: str, worker: str, fragment_length: int) -> None:
        self.slot = slot
        self.number = 0
        self.epoch = 0
        self._environment = environment
        self._worker = worker
        self._length = fragment_length
        self._steps = _Steps()
        self._pending: NDArray[Any] | None = None
        self._newest = np.empty(0)
        self._pending_first = False
        self._episode_id = ""
        self._contiguous = False

    @property
    def buffered(self) -> int:
        """Acted steps since the last cut."""
        return len(self._steps.obs)

    @property
    def is_acting(self) -> bool:
        """Whether the outcome of the last action is still outstanding."""
        return len(self._steps.reward) < len(self._steps.obs)

    def observe(
        self,
        obs: NDArray[Any],
        *,
        outcome: Outcome | None = None,
        new_episode: str | None = None,
    ) -> Fragment | None:
        """Record the next observation and return the fragment that it completes, if any."""
        steps = self._steps
        # Without an open step, the outcome belongs to a dropped one.
        if outcome is not None and len(steps.reward) < len(steps.obs):
            steps.end(outcome)
        self._pending = self._newest = obs
        self._pending_first = new_episode is not None
        if new_episode is not None:
            self._episode_id = new_episode
        return self._cut(obs) if len(steps.reward) == self._length else None

    def act(
        self,
        action: Any,
        *,
        logprob: float,
        value: float,
        policy_step: int,
        state: Mapping[str, NDArray[Any]] | None = None,
    ) -> None:
        """Record the action chosen for the last observation; `state` is kept for step 0 only."""
        if self._pending is None:
            raise NotObserved(f"slot {self.slot} has no observation to act upon")
        steps = self._steps
        if state and not steps.obs:
            steps.in_state = state
        steps.obs.append(self._pending)
        steps.action.append(action)
        steps.first.append(self._pending_first)
        steps.logprob.append(logprob)
        steps.value.append(value)
        steps.policy_step.append(policy_step)
        steps.episode_id.append(self._episode_id)
        self._pending = None

    def abort(self) -> None:
        """End the episode: its environment is gone. An action without an outcome is removed."""
        steps = self._steps
        if len(steps.reward) < len(steps.obs):
            steps.remove_action()
        if not steps.obs:
            self._contiguous = False
        elif not (steps.terminated[-1] or steps.truncated[-1]):
            steps.truncated[-1] = True
            steps.finals.append((len(steps.obs) - 1, self._newest))
        self._pending = None

    def flush(self) -> Fragment | None:
        """End the episode and return the buffered steps, padded; None if there are none."""
        self.abort()
        if not self._steps.obs:
            return None
        fragment = self._cut(self._newest)
        self._contiguous = False
        return fragment

    def drop(self) -> int:
        """Discard the buffered steps and return how many were made. The episode continues."""
        made = len(self._steps.reward)
        if self.buffered:
            self._steps = _Steps()
            self._contiguous = False
        return made

    def enter_epoch(self, epoch: int) -> int:
        """Begin `epoch` and return the number of dropped steps of an earlier one."""
        if epoch == self.epoch:
            return 0
        self.epoch = epoch
        return self.drop()

    def drop_stale(self, *, policy_step: int, max_staleness: int) -> int:
        """Drop the buffered steps if the first is too stale, and return their number."""
        steps = self._steps.policy_step
        if steps and policy_step - steps[0] > max_staleness:
            return self.drop()
        return 0

    def _cut(self, next_obs: NDArray[Any]) -> Fragment:
        steps = self._steps
        episode_ids = list(dict.fromkeys(steps.episode_id))
        fragment = Fragment(
            slot=self.slot,
            number=self.number,
            contiguous=self._contiguous,
            environment=self._environment,
            worker=self._worker,
            epoch=self.epoch,
            version_min=min(steps.policy_step),
            version_max=max(steps.policy_step),
            steps=self._length,
            episode_ids=episode_ids,
            arrays=_packed(_arrays(steps, next_obs, episode_ids), self._length),
        )
        self.number += 1
        self._contiguous = True
        self._steps = _Steps()
        return fragment


def _arrays(
    steps: _Steps, next_obs: NDArray[Any], episode_ids: list[str]
) -> dict[str, NDArray[Any]]:
    position = {episode_id: index for index, episode_id in enumerate(episode_ids)}
    arrays: dict[str, NDArray[Any]] = {
        "obs": np.stack(steps.obs),
        "action": np.asarray(steps.action),
        "reward": np.asarray(steps.reward, dtype=np.float32),
        "first": np.asarray(steps.first, dtype=np.bool_),
        "terminated": np.asarray(steps.terminated, dtype=np.bool_),
        "truncated": np.asarray(steps.truncated, dtype=np.bool_),
        "info.speed": np.asarray(steps.speed, dtype=np.float32),
        "behavior_logprob": np.asarray(steps.logprob, dtype=np.float32),
        "value": np.asarray(steps.value, dtype=np.float32),
        "policy_step": np.asarray(steps.policy_step, dtype=np.int32),
        "episode_index": np.asarray([position[e] for e in steps.episode_id], dtype=np.int32),
        "next_obs": np.asarray(next_obs),
    }
    if steps.finals:
        arrays["final_step"] = np.asarray([at for at, _ in steps.finals], dtype=np.int32)
        arrays["final_obs"] = np.stack([obs for _, obs in steps.finals])
    for name, state in steps.in_state.items():
        arrays[f"in_state.{name}"] = np.asarray(state)
    return arrays


def _packed(arrays: dict[str, NDArray[Any]], length: int) -> dict[str, Array]:
    real = len(arrays["reward"])
    if real < length:
        rows = np.minimum(np.arange(length), real - 1)
        for name in _PER_STEP:
            arrays[name] = arrays[name][rows]
        for name in _MARKS:
            arrays[name][real:] = 0
        arrays["mask"] = np.arange(length) < real
    return {name: pack_array(array) for name, array in arrays.items()}


def obs_of(number: int) -> NDArray[Any]:
    """Return an observation that encodes its number."""
    return np.array([number], dtype=np.float32)
