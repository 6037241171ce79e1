"""Turn the steps of a worker's slots into fragments and episode statistics, within its credits."""

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rolldeck.wire import EpisodeWindow, Fragment
from rollouts.fleet.policies.policy_protocol import Decision, State
from rollouts.fleet.steps.env_messages import Stepped
from rollouts.fleet.steps.episode_tallies import EpisodeTallies
from rollouts.fleet.steps.fragments import FragmentCutter
from rollouts.fleet.steps.slot_queue import Slots
from rollouts.fleet.steps.step_columns import Outcomes
from rollouts.fleet.weights.records import NO_STEP
from rollouts.fleet.worker.episodes import EpisodeStatistics
from rollouts.fleet.worker.settings import WorkerSettings
from rollouts.fleet.worker.spans import PipelineMonitor


class Collector:
    """The progress handler of a rollout worker.

    A slot may begin a fragment only with a credit, and keeps it until the fragment is cut.
    Everything but `grant`, `set_orders` and the counters belongs to the rollout loop's thread.
    """

    def __init__(
        self,
        settings: WorkerSettings,
        *,
        deliver: Callable[[Fragment], None],
        has_room: Callable[[], bool],
        monitor: PipelineMonitor,
    ) -> None:
        """Begin with empty slots and no credits.

        Args:
            settings: Of the worker.
            deliver: Takes each fragment that was cut; must not wait.
            has_room: Whether a further fragment may be begun, as far as the sender goes.
            monitor: Learns what cutting and queueing cost.
        """
        config = settings.fleet.config
        self._max_staleness = config.buffer.max_staleness
        count = config.fleet.envs_per_worker
        self._cutter = FragmentCutter(
            slots=[f"{settings.name}-{slot}@{settings.incarnation}" for slot in range(count)],
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
        self._statistics = EpisodeStatistics(worker=settings.index, now=time.monotonic())
        self._epoch = 0
        self._newest_step = NO_STEP
        self._begins_fragments = True
        self._is_draining = False
        self.env_steps = 0
        self.fragments_cut = 0
        self.dropped_steps: Counter[str] = Counter()

    @property
    def unspent(self) -> int:
        """Credits that no slot has taken yet."""
        return self._credits

    @property
    def being_filled(self) -> int:
        """Fragments that were begun and are not cut."""
        return int(np.count_nonzero(self._has_credit | (self._cutter.acted > 0)))

    @property
    def buffered_steps(self) -> int:
        """Env steps in fragments that are being filled."""
        return int(self._cutter.acted.sum())

    def grant(self, fragments: int) -> None:
        """Allow so many further fragments to be begun."""
        with self._lock:
            self._credits += fragments

    def set_orders(self, *, epoch: int, policy_step: int, begins_fragments: bool) -> None:
        """Hear of the run's newest version, and whether new fragments are wanted at all."""
        self._epoch, self._newest_step = epoch, policy_step
        self._begins_fragments = begins_fragments

    def forget_the_old(self) -> None:
        """Drop buffered steps of an earlier epoch, and those that have become too old."""
        dropped = self._cutter.enter_epoch(self._epoch)
        if dropped:
            self.dropped_steps["new_epoch"] += dropped
        dropped = self._cutter.drop_stale(
            policy_step=self._newest_step, max_staleness=self._max_staleness
        )
        if dropped:
            self.dropped_steps["stale_version"] += dropped
        if not self._begins_fragments:
            self._return_credits()

    def drain(self) -> None:
        """Send what every slot has, now or once its last action came back; begin nothing more."""
        self._is_draining = True
        for slot in np.flatnonzero(~self._cutter.is_acting).tolist():
            self._flush(slot)

    def end(self) -> None:
        """Count what is still buffered as dropped: nobody will send it."""
        dropped = sum(self._cutter.drop(slot) for slot in range(len(self._cutter.slots)))
        if dropped:
            self.dropped_steps["stopped"] += dropped

    def take_episodes(self) -> list[EpisodeWindow]:
        """Return the statistics of episodes that ended since the last call."""
        with self._lock:
            return self._statistics.take(time.monotonic())

    def began(self, slot: int, obs: NDArray[Any]) -> None:
        """Take the first observation of a new environment."""
        fragment = self._cutter.begin(slot, obs, episode=self._next_episode(slot))
        if fragment is not None:
            self._hand_over(slot, fragment)

    def stepped(self, slots: Slots, came: Stepped) -> None:
        """Write down what followed the actions of ``slots [N]``."""
        start = time.perf_counter()
        self._tallies.add(slots, came.reward)
        finals = dict(came.finals)
        new_episodes = {}
        for row in finals:
            slot = int(slots[row])
            self._end_episode(slot, "terminated" if came.terminated[row] else "truncated")
            new_episodes[row] = self._next_episode(slot)
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
        """Write down the actions chosen for ``slots [N]``."""
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
        """End the slot's episode here: its environment is gone."""
        self._cutter.abort(slot)
        self._abort_episode(slot)
        if self._is_draining:
            self._flush(slot)

    def given_up(self, slot: int) -> None:
        """Send what the slot had begun; it needs no credit any more."""
        self._flush(slot)
        if self._has_credit[slot]:
            self._has_credit[slot] = False
            self.grant(1)

    def admitted(self, slots: Slots) -> Slots:
        """Return those slots that may act: inside a fragment, or with a credit for one."""
        if self._is_draining:
            return slots[:0]
        is_allowed = self._cutter.acted[slots] > 0
        if np.count_nonzero(is_allowed) == len(slots):
            return slots
        for row in np.flatnonzero(~is_allowed).tolist():
            slot = slots[row]
            if self._begins_fragments and (self._has_credit[slot] or self._spend()):
                self._has_credit[slot] = is_allowed[row] = True
        return slots[is_allowed]

    def _return_credits(self) -> None:
        """Take credits back from slots that have not begun their fragment."""
        unused = self._has_credit & (self._cutter.acted == 0)
        self._has_credit[unused] = False
        self.grant(int(np.count_nonzero(unused)))

    def _spend(self) -> bool:
        if not self._has_room():
            return False
        with self._lock:
            if self._credits <= 0:
                return False
            self._credits -= 1
            return True

    def _flush(self, slot: int) -> None:
        fragment = self._cutter.flush(slot)
        self._abort_episode(slot)
        if fragment is not None:
            self._hand_over(slot, fragment)

    def _hand_over(self, slot: int, fragment: Fragment) -> None:
        start = time.perf_counter()
        self.fragments_cut += 1
        # First delivered, then given back: in between it counts twice rather than not at all.
        self._deliver(fragment)
        self._has_credit[slot] = False
        self._monitor.record("enqueue", time.perf_counter() - start, time.monotonic())

    def _next_episode(self, slot: int) -> str:
        number = self._tallies.begin(slot)
        return f"{self._cutter.slots[slot][-48:]}/{number}"

    def _abort_episode(self, slot: int) -> None:
        """End the slot's episode as aborted, if it has one in which something was done."""
        if self._tallies.has_acted(slot):
            self._end_episode(slot, "aborted")

    def _end_episode(
        self, slot: int, outcome: Literal["terminated", "truncated", "aborted"]
    ) -> None:
        episode = self._tallies.end(slot, outcome)
        with self._lock:
            self._statistics.add(episode)
