"""Cut fragments and episode statistics from the steps of a worker's slots, within its credits."""

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rolldeck.fleet_wire import episode_id
from rolldeck.wire import EpisodeWindow, Fragment, InfoWindow
from rollouts.fleet.policies.policy_protocol import Decision, State
from rollouts.fleet.process.settings import WorkerSettings
from rollouts.fleet.process.spans import PipelineMonitor
from rollouts.fleet.steps.env_messages import Stepped
from rollouts.fleet.steps.episode_tallies import EpisodeTallies
from rollouts.fleet.steps.fragments import FragmentCutter
from rollouts.fleet.steps.slot_queue import Slots
from rollouts.fleet.steps.step_columns import Outcomes
from rollouts.fleet.weights.records import NO_STEP
from rollouts.fleet.worker.episodes import EpisodeStatistics
from rollouts.fleet.worker.info_totals import InfoTotals


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

        Args:
            settings: Settings of the worker.
            deliver: Takes each cut fragment; must not wait.
            has_room: Returns whether the sender has room for another fragment.
            monitor: Receives timings of cutting and queueing.
        """
        config = settings.fleet.config
        self._max_staleness = config.buffer.max_staleness
        count = config.fleet.envs_per_worker
        self._cutter = FragmentCutter(
            slots=[settings.slot_name(slot) for slot in range(count)],
            environment=config.environment.spec,
            worker=f"{settings.name}@{settings.incarnation}",
            fragment_length=config.fleet.fragment_length,
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
        """Grant credits for further fragments."""
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
            self._return_credits()

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
            return self._info.pop()

    def began(self, slot: int, obs: NDArray[Any]) -> None:
        """Store the first observation of a new environment."""
        self._cutter.begin(slot, obs, episode=self._next_episode(slot))

    def stepped(self, slots: Slots, came: Stepped) -> None:
        """Store the results of the actions of ``slots [N]``."""
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
        outcomes = Outcomes(came.reward, came.terminated, came.truncated, finals)
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
        """Store the actions chosen for ``slots [N]``."""
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
        """End the slot's episode, because its environment is lost."""
        self._cutter.abort(slot)
        self._abort_episode(slot)
        if self._is_draining:
            self._flush(slot)

    def given_up(self, slot: int) -> None:
        """Send the slot's steps and return its credit."""
        self._flush(slot)

    def reported_info(self, window: InfoWindow) -> None:
        """Add numeric values of the environments' `info`."""
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

    def _return_credits(self) -> None:
        """Take credits back from slots that have not started their fragment."""
        with self._lock:
            unused = self._has_credit & (self._cutter.acted == 0)
            self._has_credit[unused] = False
            self._credits += int(np.count_nonzero(unused))

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
