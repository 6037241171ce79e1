"""Column storage for the steps of many env slots, with slices by fragment.

S is the number of slots, T the steps of a fragment. A slot's observations need one more position
than its steps: the last one waits for its action.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rolldeck.wire import INFO, Array, pack_array

Places = NDArray[np.intp]
"""One number for each of N slots, ``[N]``."""

_MARKS: Final = ("reward", "first", "terminated", "truncated")
"""Columns that padding does not repeat."""
_PER_STEP: Final = (
    *_MARKS,
    *("obs", "action", "behavior_logprob", "value", "policy_step", "episode_index"),
)


class Outcomes(NamedTuple):
    """Outcomes of the last actions of N slots."""

    reward: NDArray[Any]
    """``[N]``."""
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    info: NDArray[np.float32]
    """``[N, K]``, values of the K stored keys of `info`."""
    finals: Mapping[int, NDArray[Any]]
    """Row of the N → last observation of the episode that ended there."""


class StepColumns:
    """Columns ``[S · T, …]``, written by slot and position; the caller tracks the positions."""

    def __init__(self, *, slots: int, length: int, keys: Sequence[str] = ()) -> None:
        """Allocate the columns independent of the environment; the first step adds the others.

        `keys` are the stored keys of `info`.
        """
        self._slots = slots
        self._length = length
        # One flat axis: numpy writes to it several times faster than to two.
        self._obs: NDArray[Any] | None = None
        self._action: NDArray[Any] | None = None
        self._first = np.zeros(slots * (length + 1), dtype=np.bool_)
        count = slots * length
        self._reward = np.zeros(count, dtype=np.float32)
        self._terminated = np.zeros(count, dtype=np.bool_)
        self._truncated = np.zeros(count, dtype=np.bool_)
        self._info = [(f"{INFO}{key}", np.zeros(count, dtype=np.float32)) for key in keys]
        self._logprob = np.zeros(count, dtype=np.float32)
        self._value = np.zeros(count, dtype=np.float32)
        self._policy_step = np.zeros(count, dtype=np.int32)
        self._episodes: list[list[tuple[int, str]]] = [[(0, "")] for _ in range(slots)]
        """Episodes of each slot since the last cut, each with its first position."""
        self._finals: list[list[tuple[int, NDArray[Any]]]] = [[] for _ in range(slots)]
        self.in_state: list[Mapping[str, NDArray[Any]]] = [{} for _ in range(slots)]
        """Recurrent state before step 0, by name."""

    def observe(self, slots: Places, at: Places, obs: NDArray[Any]) -> None:
        """Record ``obs [N, …]``, each the next of its slot, inside an episode."""
        if self._obs is None:
            shape = (self._slots * (self._length + 1), *obs.shape[1:])
            self._obs = np.zeros(shape, dtype=obs.dtype)
        places = slots * (self._length + 1) + at
        self._obs[places] = obs
        self._first[places] = False

    def begin_episode(self, slot: int, at: int, episode: str) -> None:
        """Mark the observation at that position as the first of `episode`."""
        self._first[slot * (self._length + 1) + at] = True
        begun = self._episodes[slot]
        if begun[-1][0] == at:
            begun.pop()
        begun.append((at, episode))

    def act(
        self,
        slots: Places,
        at: Places,
        actions: NDArray[Any],
        logprobs: NDArray[np.float32],
        values: NDArray[np.float32],
        *,
        policy_step: int,
    ) -> None:
        """Record ``actions [N, …]`` of a version; log-probabilities and values are ``[N]``."""
        if self._action is None:
            shape = (self._slots * self._length, *actions.shape[1:])
            self._action = np.zeros(shape, dtype=actions.dtype)
        places = slots * self._length + at
        self._action[places] = actions
        self._logprob[places] = logprobs
        self._value[places] = values
        self._policy_step[places] = policy_step

    def end(self, slots: Places, at: Places, outcomes: Outcomes) -> None:
        """Record the outcomes of the steps at those positions."""
        places = slots * self._length + at
        self._reward[places] = outcomes.reward
        self._terminated[places] = outcomes.terminated
        self._truncated[places] = outcomes.truncated
        for number, (_, column) in enumerate(self._info):
            column[places] = outcomes.info[:, number]
        for row, obs in outcomes.finals.items():
            self._finals[slots[row]].append((int(at[row]), obs))

    def truncate(self, slot: int, made: int) -> None:
        """Mark the last of `made` steps as the end of its episode, if it has not ended."""
        place = slot * self._length + made - 1
        if self._terminated[place] or self._truncated[place]:
            return
        self._truncated[place] = True
        self._finals[slot].append((made - 1, self._observed(slot, made).copy()))

    def restart(self, slot: int, acted: int) -> None:
        """Remove the first `acted` steps; an observation after them becomes that of step 0."""
        if self._obs is not None:
            begin = slot * (self._length + 1)
            self._obs[begin] = self._obs[begin + acted]
            self._first[begin] = self._first[begin + acted]
        self._episodes[slot] = [(0, self._episodes[slot][-1][1])]
        self._finals[slot] = []
        self.in_state[slot] = {}

    def first_label(self, slots: Places) -> NDArray[np.int32]:
        """Return the version that acted at step 0, ``[N]``."""
        return self._policy_step[slots * self._length]

    def labels(self, slot: int, steps: int) -> tuple[int, int]:
        """Return the oldest and the newest version that acted within the first `steps`."""
        begin = slot * self._length
        acted = self._policy_step[begin : begin + steps]
        return int(acted.min()), int(acted.max())

    def episode_ids(self, slot: int, steps: int) -> list[str]:
        """Return the episodes of the first `steps`, in order."""
        return [episode for at, episode in self._episodes[slot] if at < steps]

    def arrays(self, slot: int, steps: int) -> dict[str, Array]:
        """Return the first `steps` steps in the fragment format, padded to its length.

        Raises:
            ValueError: Before the first step, because no shape is known yet.
        """
        if self._obs is None or self._action is None:
            raise ValueError("there are no steps yet")
        own = slice(slot * self._length, slot * self._length + steps)
        begin = slot * (self._length + 1)
        observed = slice(begin, begin + steps)
        episode_index = np.zeros(steps, dtype=np.int32)
        for at, _ in self._episodes[slot][1:]:
            episode_index[at:] += 1
        arrays: dict[str, NDArray[Any]] = {
            "obs": self._obs[observed],
            "action": self._action[own],
            "reward": self._reward[own],
            "first": self._first[observed],
            "terminated": self._terminated[own],
            "truncated": self._truncated[own],
            "behavior_logprob": self._logprob[own],
            "value": self._value[own],
            "policy_step": self._policy_step[own],
            "episode_index": episode_index,
            "next_obs": self._observed(slot, steps),
        }
        info = {name: column[own] for name, column in self._info}
        arrays |= info
        finals = self._finals[slot]
        if finals:
            arrays["final_step"] = np.asarray([at for at, _ in finals], dtype=np.int32)
            arrays["final_obs"] = np.stack([obs for _, obs in finals])
        for name, state in self.in_state[slot].items():
            arrays[f"in_state.{name}"] = np.asarray(state)
        if steps < self._length:
            # The last step is repeated up to the length; the mask marks the real steps.
            positions = np.arange(self._length)
            for name in (*_PER_STEP, *info):
                arrays[name] = arrays[name][np.minimum(positions, steps - 1)]
            for name in (*_MARKS, *info):
                arrays[name][steps:] = 0
            arrays["mask"] = positions < steps
        packed = {}
        for name, array in arrays.items():
            if array.dtype.names is None:
                packed[name] = pack_array(array)
            # Each part of composed observations is a separate array.
            for part in array.dtype.names or ():
                packed[f"{name}.{part}"] = pack_array(array[part])
        return packed

    def _observed(self, slot: int, at: int) -> NDArray[Any]:
        assert self._obs is not None  # noqa: S101 callers have observed
        found: NDArray[Any] = self._obs[slot * (self._length + 1) + at, ...]
        return found
