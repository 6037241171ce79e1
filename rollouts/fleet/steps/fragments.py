"""Assembly of the steps of a worker's env slots into fragments, within its credits.

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
    - A reward, the values of `info` and an episode end belong to the step whose action they
      followed; they arrive with the next observation.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rolldeck.fleet_wire import InfoSum, episode_id
from rolldeck.wire import EpisodeWindow, Fragment, InfoWindow
from rollouts.fleet.policies.policy_protocol import Decision, State
from rollouts.fleet.process.settings import WorkerSettings
from rollouts.fleet.process.spans import PipelineMonitor
from rollouts.fleet.steps.env_messages import Stepped
from rollouts.fleet.steps.slots import Slots
from rollouts.fleet.steps.step_columns import Outcomes, StepColumns
from rollouts.fleet.weights.records import NO_STEP
from rollouts.fleet.worker.episodes import EpisodeStatistics, EpisodeTallies
from rollouts.fleet.worker.info_values import InfoTotals


class NotObserved(RuntimeError):
    """A slot has no observation to act on."""


class FragmentCutter:
    """Builds fragments from the steps of S env slots; the module lists its invariants."""

    def __init__(
        self,
        *,
        slots: Sequence[str],
        environment: str,
        worker: str,
        fragment_length: int,
        keys: Sequence[str] = (),
    ) -> None:
        """Start with fragment 0 of every slot; names of slots are unique in the run, ``[S]``.

        `keys` are the stored keys of `info`, ``[K]``.
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
        self._columns = StepColumns(slots=len(slots), length=fragment_length, keys=keys)
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
            rows = np.flatnonzero(is_open)
            row_of = {int(row): index for index, row in enumerate(rows)}
            finals = {row_of[row]: obs for row, obs in outcomes.finals.items() if row in row_of}
            some = Outcomes(
                reward=outcomes.reward[rows],
                terminated=outcomes.terminated[rows],
                truncated=outcomes.truncated[rows],
                info=outcomes.info[rows],
                finals=finals,
            )
            self._columns.end(slots[rows], ended[rows], some)
            self._ended[slots[rows]] += 1
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

        `policy_step` is the step of the run's newest version.
        """
        buffered = np.flatnonzero(self.acted)
        if not len(buffered):
            return 0
        too_old = policy_step - self._columns.first_label(buffered) > max_staleness
        return sum(self.drop(int(slot)) for slot in buffered[too_old])

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


class FragmentBuilder:
    """Progress handler of a rollout worker.

    A slot needs a credit to start a fragment, and holds it until the fragment is cut. Other threads
    may call `grant` and `set_command` and read the counters; all else belongs to the rollout loop.
    """

    def __init__(
        self,
        settings: WorkerSettings,
        *,
        deliver: Callable[[Fragment], None],
        has_room: Callable[[], bool],
        monitor: PipelineMonitor,
    ) -> None:
        """Start with empty slots and without credits.

        `deliver` takes each cut fragment and must not wait; `has_room` tells whether the sender has
        room for another one.
        """
        config = settings.fleet.config
        self._max_staleness = config.buffer.max_staleness
        count = config.fleet.envs_per_worker
        self._cutter = FragmentCutter(
            slots=[settings.slot_name(slot) for slot in range(count)],
            environment=config.environment.spec,
            worker=f"{settings.name}@{settings.incarnation}",
            fragment_length=config.fleet.fragment_length,
            keys=config.environment.info,
        )
        self._tallies = EpisodeTallies(
            slots=count, environment=config.environment.spec, discount=config.fleet.discount
        )
        self._has_credit = np.zeros(count, dtype=np.bool_)
        self._deliver = deliver
        self._has_room = has_room
        self._monitor = monitor
        self._lock = threading.Lock()
        self._credits = 0
        self._info = InfoTotals()
        self._keys = config.environment.info
        self._info.know(self._keys)
        self._missing = np.zeros(len(self._keys), dtype=np.int64)
        """Steps without a number of each stored key since the last `pop_info`, ``[K]``."""
        self._missing_of = 0
        """Steps since then."""
        self._statistics = EpisodeStatistics(
            worker=settings.index, incarnation=settings.incarnation, now=time.monotonic()
        )
        self._epoch = 0
        self._newest_step = NO_STEP
        self._begins_fragments = True
        self._is_draining = False
        self.env_steps = 0
        self.episodes_ended = 0
        """Number of episodes that ended, without aborted ones."""
        self.fragments_cut = 0
        self.dropped_steps: Counter[str] = Counter()
        self._dropped_as = "stale_version"
        """Reason of the newest drop, also for outcomes that arrive after it."""

    def held(self) -> tuple[int, int]:
        """Return the number of credits that no slot has taken, and of fragments being filled.

        Both are of one moment: a credit that a slot takes or returns meanwhile counts once.
        """
        with self._lock:
            filling = np.count_nonzero(self._has_credit | (self._cutter.acted > 0))
            return self._credits, int(filling)

    @property
    def being_filled(self) -> int:
        """Number of fragments started and not yet cut."""
        return self.held()[1]

    @property
    def buffered_steps(self) -> int:
        """Number of env steps in fragments that are being filled."""
        return int(self._cutter.made.sum())

    def grant(self, fragments: int) -> None:
        with self._lock:
            self._credits += fragments

    def set_command(self, *, epoch: int, policy_step: int, begins_fragments: bool) -> None:
        """Set the run's newest version, and whether new fragments may be started."""
        self._epoch, self._newest_step = epoch, policy_step
        self._begins_fragments = begins_fragments

    def drop_stale_steps(self) -> None:
        """Drop buffered steps of an earlier epoch or of stale versions."""
        if self._epoch != self._cutter.epoch:
            self._count_dropped("new_epoch", self._cutter.enter_epoch(self._epoch))
        before = np.count_nonzero(self._cutter.acted)
        dropped = self._cutter.drop_stale(
            policy_step=self._newest_step, max_staleness=self._max_staleness
        )
        if np.count_nonzero(self._cutter.acted) < before:
            self._count_dropped("stale_version", dropped)
        if not self._begins_fragments:
            # Slots that have not started their fragment return their credit.
            with self._lock:
                unused = self._has_credit & (self._cutter.acted == 0)
                self._has_credit[unused] = False
                self._credits += int(np.count_nonzero(unused))

    def drain(self) -> None:
        """Cut every slot's steps, now or after its action in progress; start no new fragments."""
        self._is_draining = True
        for slot in np.flatnonzero(~self._cutter.is_acting).tolist():
            self._flush(slot)

    def end(self) -> None:
        """Count the buffered steps as dropped."""
        dropped = sum(self._cutter.drop(slot) for slot in range(len(self._cutter.slots)))
        self._count_dropped("stopped", dropped)

    def pop_episodes(self) -> list[EpisodeWindow]:
        """Return the statistics of episodes that ended since the last call."""
        with self._lock:
            return self._statistics.pop(time.monotonic())

    def pop_info(self) -> InfoWindow:
        """Return the numeric values of `info` since the last call."""
        with self._lock:
            if self._missing_of:
                sums = [
                    InfoSum(name=key, scope="missing", count=self._missing_of, total=float(steps))
                    for key, steps in zip(self._keys, self._missing, strict=True)
                ]
                self._info.merge(InfoWindow(sums=sums))
                self._missing[:], self._missing_of = 0, 0
            return self._info.pop()

    def began(self, slot: int, obs: NDArray[Any]) -> None:
        self._cutter.begin(slot, obs, episode=self._next_episode(slot))

    def stepped(self, slots: Slots, came: Stepped) -> None:
        start = time.perf_counter()
        self._tallies.add(slots, came.reward)
        finals = dict(came.finals)
        new_episodes = {}
        for row in finals:
            slot = int(slots[row])
            self._end_episode(slot, "terminated" if came.terminated[row] else "truncated")
            new_episodes[row] = self._next_episode(slot)
        # The outcome of an action that was dropped meanwhile is dropped too.
        late = len(slots) - int(np.count_nonzero(self._cutter.is_acting[slots]))
        self._count_dropped(self._dropped_as, late)
        outcomes = Outcomes(came.reward, came.terminated, came.truncated, came.info, finals)
        if self._keys:
            with self._lock:
                self._missing += np.isnan(came.info).sum(axis=0)
                self._missing_of += len(slots)
        cut = self._cutter.observe(slots, came.obs, outcomes, new_episodes=new_episodes)
        self.env_steps += len(slots)
        self._monitor.record("cut", time.perf_counter() - start, time.monotonic())
        for slot, fragment in cut:
            self._hand_over(slot, fragment)
        if self._is_draining:
            for slot in slots.tolist():
                self._flush(slot)

    def acted(
        self, slots: Slots, decision: Decision, version: tuple[int, int], state: State
    ) -> None:
        step = version[1]
        self._tallies.acted(slots, step)
        self._cutter.act(
            slots,
            actions=decision.actions,
            logprobs=decision.logprobs,
            values=decision.values,
            policy_step=step,
            state=state,
        )

    def aborted(self, slot: int) -> None:
        self._cutter.abort(slot)
        self._abort_episode(slot)
        if self._is_draining:
            self._flush(slot)

    def given_up(self, slot: int) -> None:
        """Send the slot's steps and return its credit."""
        self._flush(slot)

    def reported_info(self, window: InfoWindow) -> None:
        with self._lock:
            self._info.merge(window)

    def admitted(self, slots: Slots) -> Slots:
        """Return the slots that may act: within a fragment, or with a credit for a new one."""
        if self._is_draining:
            return slots[:0]
        is_allowed = self._cutter.acted[slots] > 0
        if np.count_nonzero(is_allowed) == len(slots):
            return slots
        for row in np.flatnonzero(~is_allowed).tolist():
            slot = slots[row]
            is_allowed[row] = self._begins_fragments and (
                self._has_credit[slot] or self._spend(slot)
            )
        return slots[is_allowed]

    def _spend(self, slot: int) -> bool:
        if not self._has_room():
            return False
        with self._lock:
            if self._credits <= 0:
                return False
            self._credits -= 1
            self._has_credit[slot] = True
            return True

    def _flush(self, slot: int) -> None:
        fragment = self._cutter.flush(slot)
        self._abort_episode(slot)
        if fragment is not None:
            self._hand_over(slot, fragment)
        with self._lock:
            if self._has_credit[slot]:
                self._has_credit[slot] = False
                self._credits += 1

    def _count_dropped(self, reason: str, steps: int) -> None:
        self._dropped_as = reason
        if steps:
            self.dropped_steps[reason] += steps

    def _hand_over(self, slot: int, fragment: Fragment) -> None:
        start = time.perf_counter()
        self.fragments_cut += 1
        # Deliver before release: in between, the credit counts twice rather than not at all.
        self._deliver(fragment)
        self._has_credit[slot] = False
        self._monitor.record("enqueue", time.perf_counter() - start, time.monotonic())

    def _next_episode(self, slot: int) -> str:
        return episode_id(self._cutter.slots[slot], self._tallies.begin(slot))

    def _abort_episode(self, slot: int) -> None:
        """End the slot's episode as aborted, if its environment made a step."""
        if self._tallies.has_steps(slot):
            self._end_episode(slot, "aborted")

    def _end_episode(
        self, slot: int, outcome: Literal["terminated", "truncated", "aborted"]
    ) -> None:
        episode = self._tallies.end(slot, outcome)
        self.episodes_ended += outcome != "aborted"
        with self._lock:
            self._statistics.add(episode)
