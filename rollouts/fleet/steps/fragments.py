"""Assembly of the steps of a worker's env slots into fragments.

Steps of many slots are recorded at once, by slot index, into columns ``[slots, steps]``; a fragment
is a slice of them. No Python code runs per step.

Invariants, for each slot:
    - Every step that the environment made is in exactly one fragment, or is counted as dropped. An
      action whose outcome never arrives is in none: its episode ends with the step before it. A
      slot that stops sends its remaining steps: padded to a whole fragment, with a mask.
    - Fragments are numbered from 0 without gaps; steps dropped between two of them clear the later
      one's `contiguous`.
    - A fragment is cut when the observation of its boundary step has arrived: that observation is
      the fragment's `next_obs` and step 0 of the next one. No action on it is needed first.
    - A reward and an episode end belong to the step whose action they followed; they arrive with
      the next observation.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rolldeck.wire import Fragment
from rollouts.fleet.steps.slot_queue import Slots
from rollouts.fleet.steps.step_columns import Outcomes, StepColumns

__all__ = ["FragmentCutter", "NotObserved", "Outcomes", "Slots"]


class NotObserved(RuntimeError):
    """A slot has no observation to act on."""


class FragmentCutter:
    """Builds fragments from the steps of S env slots; the module lists its invariants."""

    def __init__(
        self, *, slots: Sequence[str], environment: str, worker: str, fragment_length: int
    ) -> None:
        """Start with fragment 0 of every slot.

        Args:
            slots: Name of each slot's incarnation, unique in the run, ``[S]``.
            environment: Spec that the slots run.
            worker: Name of the worker that holds them.
            fragment_length: Env steps per fragment.
        """
        self.slots = tuple(slots)
        self.acted = np.zeros(len(slots), dtype=np.intp)
        """Actions of each slot since its last cut, ``[S]``; read-only for callers."""
        self.epoch = 0
        self._environment = environment
        self._worker = worker
        self._length = fragment_length
        # Outcomes are at most one step behind actions.
        self._ended = np.zeros(len(slots), dtype=np.intp)
        self._is_observed = np.zeros(len(slots), dtype=np.bool_)
        self._columns = StepColumns(slots=len(slots), length=fragment_length)
        self._numbers = [0] * len(slots)
        self._is_contiguous = [False] * len(slots)

    @property
    def is_acting(self) -> NDArray[np.bool_]:
        """Whether the outcome of each slot's last action is still outstanding, ``[S]``."""
        return self._ended < self.acted

    @property
    def made(self) -> NDArray[np.intp]:
        """Steps of each slot since its last cut whose outcome has arrived, ``[S]``."""
        return self._ended.copy()

    def begin(self, slot: int, obs: NDArray[Any], *, episode: str) -> None:
        """Record the first observation of a slot that was just started."""
        self._buffer_observations(np.array([slot]), np.asarray(obs)[None], {0: episode})

    def observe(
        self,
        slots: Slots,
        obs: NDArray[Any],
        outcomes: Outcomes,
        *,
        new_episodes: Mapping[int, str],
    ) -> list[tuple[int, Fragment]]:
        """Record the next observations and return the fragments that they complete, by slot.

        Args:
            slots: ``[N]``.
            obs: ``[N, …]``.
            outcomes: Outcomes of the last actions, ``[N]`` each.
            new_episodes: Row → id of the episode that its observation begins.
        """
        ended = self._ended[slots]
        is_open = ended < self.acted[slots]
        if np.count_nonzero(is_open) == len(slots):
            self._columns.end(slots, ended, outcomes)
            self._ended[slots] = ended = ended + 1
        else:
            # Without an open step, an outcome belongs to a dropped one.
            self._end_some(np.flatnonzero(is_open), slots, outcomes)
            ended = self._ended[slots]
        self._buffer_observations(slots, obs, new_episodes)
        full = slots[ended == self._length].tolist()
        return [(slot, self._cut(slot, self._length)) for slot in full]

    def act(
        self,
        slots: Slots,
        *,
        actions: NDArray[Any],
        logprobs: NDArray[np.float32],
        values: NDArray[np.float32],
        policy_step: int,
        state: Mapping[str, NDArray[Any]],
    ) -> None:
        """Record the actions chosen for the last observations of ``slots [N]``.

        Args:
            slots: ``[N]``.
            actions: ``[N, …]``, as chosen by the policy.
            logprobs: ``[N]``, natural log of their probability under that policy.
            values: ``[N]``, the policy's estimates for the observations.
            policy_step: Step of that policy's version.
            state: Recurrent state before the step by name, each ``[N, …]``; kept for step 0 only.

        Raises:
            NotObserved: If a slot has no observation that waits for an action.
        """
        if np.count_nonzero(self._is_observed[slots]) < len(slots):
            blind = [self.slots[slot] for slot in slots if not self._is_observed[slot]]
            raise NotObserved(f"no observation to act on: {', '.join(blind)}")
        at = self.acted[slots]
        self._columns.act(slots, at, actions, logprobs, values, policy_step=policy_step)
        if state:
            for row in np.flatnonzero(at == 0).tolist():
                kept = {name: np.array(rows[row]) for name, rows in state.items()}
                self._columns.in_state[slots[row]] = kept
        self.acted[slots] = at + 1
        self._is_observed[slots] = False

    def abort(self, slot: int) -> None:
        """End the episode because its environment is gone; the next observation begins another.

        An action without an outcome is removed. The last step counts as truncated; its final
        observation is the newest one of the slot.
        """
        made = int(self._ended[slot])
        self.acted[slot] = made
        if made:
            self._columns.truncate(slot, made)
        else:
            self._is_contiguous[slot] = False
        self._is_observed[slot] = False

    def flush(self, slot: int) -> Fragment | None:
        """End the episode and return the buffered steps; None if there are none.

        The fragment is padded to its length as described in :class:`rolldeck.wire.Fragment`.
        """
        self.abort(slot)
        made = int(self._ended[slot])
        if not made:
            return None
        fragment = self._cut(slot, made)
        self._is_contiguous[slot] = False
        return fragment

    def drop(self, slot: int) -> int:
        """Discard the slot's steps and return how many were made. The episode continues.

        An action without an outcome is discarded as well.
        """
        acted, made = int(self.acted[slot]), int(self._ended[slot])
        if acted:
            self._columns.restart(slot, acted)
            self.acted[slot] = self._ended[slot] = 0
            self._is_contiguous[slot] = False
        return made

    def enter_epoch(self, epoch: int) -> int:
        """Begin `epoch` and return the number of dropped steps of an earlier one."""
        if epoch == self.epoch:
            return 0
        self.epoch = epoch
        return sum(self.drop(slot) for slot in range(len(self.slots)))

    def drop_stale(self, *, policy_step: int, max_staleness: int) -> int:
        """Drop the steps of each slot whose first is too stale, and return their number.

        Args:
            policy_step: Step of the run's newest version.
            max_staleness: Largest allowed difference between it and the version of the first step.
        """
        buffered = np.flatnonzero(self.acted)
        if not len(buffered):
            return 0
        too_old = policy_step - self._columns.first_label(buffered) > max_staleness
        return sum(self.drop(int(slot)) for slot in buffered[too_old])

    def _end_some(self, rows: NDArray[np.intp], slots: Slots, outcomes: Outcomes) -> None:
        """Record the outcomes of `rows` only."""
        row_of = {int(row): index for index, row in enumerate(rows)}
        finals = {row_of[row]: obs for row, obs in outcomes.finals.items() if row in row_of}
        chosen = slots[rows]
        some = Outcomes(
            outcomes.reward[rows], outcomes.terminated[rows], outcomes.truncated[rows], finals
        )
        self._columns.end(chosen, self._ended[chosen], some)
        self._ended[chosen] += 1

    def _buffer_observations(
        self, slots: Slots, obs: NDArray[Any], new_episodes: Mapping[int, str]
    ) -> None:
        """Store observations until their actions arrive."""
        self._columns.observe(slots, self.acted[slots], obs)
        for row, episode in new_episodes.items():
            slot = int(slots[row])
            self._columns.begin_episode(slot, int(self.acted[slot]), episode)
        self._is_observed[slots] = True

    def _cut(self, slot: int, steps: int) -> Fragment:
        """Remove and return all `steps` steps of a slot; shorter fragments are padded."""
        columns = self._columns
        oldest, newest = columns.labels(slot, steps)
        fragment = Fragment(
            slot=self.slots[slot],
            number=self._numbers[slot],
            contiguous=self._is_contiguous[slot],
            environment=self._environment,
            worker=self._worker,
            epoch=self.epoch,
            version_min=oldest,
            version_max=newest,
            steps=self._length,
            episode_ids=columns.episode_ids(slot, steps),
            arrays=columns.arrays(slot, steps),
        )
        columns.restart(slot, steps)
        self.acted[slot] = self._ended[slot] = 0
        self._numbers[slot] += 1
        self._is_contiguous[slot] = True
        return fragment
