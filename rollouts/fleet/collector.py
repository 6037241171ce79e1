"""Turn the steps of a worker's slots into fragments and episode statistics, within its credits."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from numpy.typing import NDArray

from rolldeck.wire import EpisodeWindow, Fragment
from rollouts.core.episodes import Episode, EpisodeStatistics
from rollouts.core.fragments import FragmentCutter, Outcome
from rollouts.core.pipeline import PipelineMonitor
from rollouts.fleet.acting import Decision, State
from rollouts.fleet.env_process import Stepped
from rollouts.fleet.settings import WorkerSettings
from rollouts.fleet.weights import NO_STEP

DISCOUNT: Final = 0.99
"""Of the discounted return that statistics show; trainers use their own."""


@dataclass(slots=True)
class _Episode:
    """The episode that a slot is in."""

    number: int = 0
    total_return: float = 0.0
    discounted_return: float = 0.0
    discount: float = 1.0
    length: int = 0
    policy_step: int = NO_STEP
    """Of the last action; NO_STEP before the first."""

    def add(self, reward: float) -> None:
        self.total_return += reward
        self.discounted_return += self.discount * reward
        self.discount *= DISCOUNT
        self.length += 1


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
        self._spec = config.environment.spec
        self._max_staleness = config.buffer.max_staleness
        self._cutters = [
            FragmentCutter(
                slot=f"{settings.name}-{slot}@{settings.incarnation}",
                environment=self._spec,
                worker=f"{settings.name}@{settings.incarnation}",
                fragment_length=config.fleet.fragment_length,
            )
            for slot in range(config.fleet.envs_per_worker)
        ]
        self._episodes = [_Episode() for _ in self._cutters]
        self._has_credit = [False] * len(self._cutters)
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
        return sum(
            has_credit or cutter.buffered > 0
            for has_credit, cutter in zip(self._has_credit, self._cutters, strict=True)
        )

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
        for cutter in self._cutters:
            dropped = cutter.enter_epoch(self._epoch)
            if dropped:
                self.dropped_steps["new_epoch"] += dropped
            dropped = cutter.drop_stale(
                policy_step=self._newest_step, max_staleness=self._max_staleness
            )
            if dropped:
                self.dropped_steps["stale_version"] += dropped
        if not self._begins_fragments:
            self._return_credits()

    def drain(self) -> None:
        """Send what every slot has, now or once its last action came back; begin nothing more."""
        self._is_draining = True
        for slot, cutter in enumerate(self._cutters):
            if not cutter.is_acting:
                self._flush(slot)

    def end(self) -> None:
        """Count what is still buffered as dropped: nobody will send it."""
        for cutter in self._cutters:
            dropped = cutter.drop()
            if dropped:
                self.dropped_steps["stopped"] += dropped

    def take_episodes(self) -> list[EpisodeWindow]:
        """Return the statistics of episodes that ended since the last call."""
        with self._lock:
            return self._statistics.take(time.monotonic())

    def began(self, slot: int, obs: NDArray[Any]) -> None:
        """Take the first observation of a new environment."""
        fragment = self._cutters[slot].observe(obs, new_episode=self._next_episode(slot))
        if fragment is not None:
            self._hand_over(slot, fragment)

    def stepped(self, slots: Sequence[int], came: Stepped) -> None:
        """Write down what followed the actions of `slots`."""
        start = time.perf_counter()
        enqueueing = 0.0
        finals = dict(came.finals)
        for row, slot in enumerate(slots):
            final = finals.get(row)
            reward, terminated = came.reward[row], came.terminated[row]
            self._episodes[slot].add(reward)
            new_episode = None
            if final is not None:
                self._end_episode(slot, "terminated" if terminated else "truncated")
                new_episode = self._next_episode(slot)
            outcome = Outcome(reward, terminated, came.truncated[row], final)
            cutter = self._cutters[slot]
            fragment = cutter.observe(came.obs[row], outcome=outcome, new_episode=new_episode)
            if fragment is not None:
                enqueueing += self._hand_over(slot, fragment)
            if self._is_draining:
                self._flush(slot)
        self.env_steps += len(slots)
        self._monitor.record("cut", time.perf_counter() - start - enqueueing, time.monotonic())

    def acted(
        self, slots: Sequence[int], decision: Decision, version: tuple[int, int], state: State
    ) -> None:
        """Write down the actions chosen for `slots`."""
        step = version[1]
        discrete = decision.actions.ndim == 1
        actions = decision.actions.tolist() if discrete else decision.actions
        logprobs, values = decision.logprobs.tolist(), decision.values.tolist()
        for row, slot in enumerate(slots):
            self._episodes[slot].policy_step = step
            self._cutters[slot].act(
                actions[row],
                logprob=logprobs[row],
                value=values[row],
                policy_step=step,
                state={name: rows[row] for name, rows in state.items()} if state else None,
            )

    def aborted(self, slot: int) -> None:
        """End the slot's episode here: its environment is gone."""
        self._cutters[slot].abort()
        self._abort_episode(slot)
        if self._is_draining:
            self._flush(slot)

    def given_up(self, slot: int) -> None:
        """Send what the slot had begun; it needs no credit any more."""
        self._flush(slot)
        if self._has_credit[slot]:
            self._has_credit[slot] = False
            self.grant(1)

    def admitted(self, slots: Sequence[int]) -> list[int]:
        """Return those slots that may act: inside a fragment, or with a credit for one."""
        allowed: list[int] = []
        if self._is_draining:
            return allowed
        for slot in slots:
            if self._cutters[slot].buffered:
                allowed.append(slot)
            elif self._begins_fragments and (self._has_credit[slot] or self._spend()):
                self._has_credit[slot] = True
                allowed.append(slot)
        return allowed

    def _return_credits(self) -> None:
        """Take credits back from slots that have not begun their fragment."""
        for slot, cutter in enumerate(self._cutters):
            if self._has_credit[slot] and not cutter.buffered:
                self._has_credit[slot] = False
                self.grant(1)

    def _spend(self) -> bool:
        if not self._has_room():
            return False
        with self._lock:
            if self._credits <= 0:
                return False
            self._credits -= 1
            return True

    def _flush(self, slot: int) -> None:
        fragment = self._cutters[slot].flush()
        self._abort_episode(slot)
        if fragment is not None:
            self._hand_over(slot, fragment)

    def _hand_over(self, slot: int, fragment: Fragment) -> float:
        """Deliver `fragment`; return the seconds it took."""
        start = time.perf_counter()
        self.fragments_cut += 1
        # First delivered, then given back: in between it counts twice rather than not at all.
        self._deliver(fragment)
        self._has_credit[slot] = False
        seconds = time.perf_counter() - start
        self._monitor.record("enqueue", seconds, time.monotonic())
        return seconds

    def _next_episode(self, slot: int) -> str:
        number = self._episodes[slot].number + 1
        self._episodes[slot] = _Episode(number=number)
        return f"{self._cutters[slot].slot[-48:]}/{number}"

    def _abort_episode(self, slot: int) -> None:
        """End the slot's episode as aborted, if it has one in which something was done."""
        if self._episodes[slot].policy_step > NO_STEP:
            self._end_episode(slot, "aborted")

    def _end_episode(
        self, slot: int, outcome: Literal["terminated", "truncated", "aborted"]
    ) -> None:
        over = self._episodes[slot]
        self._episodes[slot] = _Episode(number=over.number)
        episode = Episode(
            environment=self._spec,
            total_return=over.total_return,
            discounted_return=over.discounted_return,
            length=over.length,
            outcome=outcome,
            policy_step=over.policy_step,
        )
        with self._lock:
            self._statistics.add(episode)
