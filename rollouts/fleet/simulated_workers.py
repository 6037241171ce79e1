"""Pretend to be workers, so that a platform can be tried with a fleet larger than the machine.

:class:`SimulatedWorkers` takes the place of a cluster under a real manager: each of its workers is
an object that reckons, when it is asked, what it would have done since.
"""

import random
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Literal

from msgspec import Struct

from rolldeck.wire import SlotReport, WorkerReport
from rollouts.core.episodes import Episode, EpisodeStatistics
from rollouts.fleet.messages import IDLE, Orders, WorkerState
from rollouts.fleet.settings import WorkerSettings, derive_seed
from rollouts.fleet.simulated_sampling import SimulatedFailure
from rollouts.fleet.weights import NO_STEP, WeightsOffer, WeightsRecord

Clock = Callable[[], float]


class Simulation(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the pretended work is like."""

    step_seconds: float = 0.05
    """Mean time from an observation to the next, inference included."""
    spread: float = 0.3
    """Standard deviation of times and lengths, as a part of their means."""
    episode_length: int = 200
    """Mean env steps of an episode."""
    failures_per_hour: float = 0.0
    """How often one worker dies, on average."""


class SimulatedWorker:
    """What a :class:`rollouts.fleet.wrapper.RolloutWorkerWrapper` would answer."""

    def __init__(self, settings: WorkerSettings, simulation: Simulation, *, clock: Clock) -> None:
        """Begin paused.

        Args:
            settings: Of the worker.
            simulation: What its work is like.
            clock: Gives seconds that never go back.
        """
        config = settings.fleet.config
        self._settings = settings
        self._simulation = simulation
        self._slots = config.fleet.envs_per_worker
        self._spec = config.environment.spec
        # Any number will do for times; nothing secret is drawn.
        self._random = random.Random(derive_seed(config.seed, settings.incarnation))  # noqa: S311
        self._now = self._measured_at = clock()
        self._clock = clock
        rate = simulation.failures_per_hour / 3600
        self._dies_at = self._now + self._random.expovariate(rate) if rate else float("inf")
        self._orders = IDLE
        self._version = (0, NO_STEP)
        self._steps = self._steps_measured = 0.0
        self._episodes = 0
        self._statistics = EpisodeStatistics(worker=settings.index, now=self._now)

    def exchange(self, orders: Orders) -> WorkerState:
        """Reckon what was done since the last orders, and take these.

        Raises:
            SimulatedFailure: If the worker has died in the meantime.
        """
        now = self._clock()
        if now >= self._dies_at:
            raise SimulatedFailure("the simulated worker died")
        if self._is_stepping:
            pace = max(0.1, self._random.gauss(1.0, self._simulation.spread))
            self._steps += (now - self._now) * self._slots * pace / self._simulation.step_seconds
            self._end_episodes()
        self._now, self._orders = now, orders
        return WorkerState(
            report=self._report(now, is_reporting=orders.is_reporting),
            unspent=0,
            outstanding=0,
            accepted=0,
            is_drained=orders.desired == "draining",
            episodes=self._statistics.take(now) if orders.is_reporting else [],
        )

    def update_weights(self, offer: WeightsOffer) -> tuple[int, int]:
        """Pretend to load a version."""
        self._version = max(self._version, offer.version)
        return self._version

    def read_log(self, *_: object) -> None:
        """Have nothing to show."""

    def stop(self) -> None:
        """Do nothing: there is nothing to end."""

    @property
    def _is_stepping(self) -> bool:
        return self._orders.desired == "running" and self._version[1] > NO_STEP

    def _end_episodes(self) -> None:
        """Let those episodes end that the steps so far are enough for."""
        length = self._simulation.episode_length
        for _ in range(int(self._steps // length) - self._episodes):
            steps = max(1, round(self._random.gauss(length, length * self._simulation.spread)))
            self._statistics.add(
                Episode(
                    environment=self._spec,
                    total_return=float(steps),
                    discounted_return=float(steps),
                    length=steps,
                    outcome="terminated",
                    policy_step=self._version[1],
                )
            )
            self._episodes += 1

    def _report(self, now: float, *, is_reporting: bool) -> WorkerReport:
        speed = (self._steps - self._steps_measured) / max(now - self._measured_at, 1e-3)
        if is_reporting:
            self._measured_at, self._steps_measured = now, self._steps
        state: Literal["draining", "paused", "running"] = "running"
        if self._orders.desired in {"draining", "paused"}:
            state = self._orders.desired
        step = self._version[1]
        return WorkerReport(
            index=self._settings.index,
            incarnation=self._settings.incarnation,
            state=state,
            node="simulated",
            announced_step=self._orders.policy_step,
            staged_step=step,
            active_step=step,
            env_steps=int(self._steps),
            env_steps_per_second=max(0.0, speed),
            slots=[self._slot(number) for number in range(self._slots)],
        )

    def _slot(self, number: int) -> SlotReport:
        return SlotReport(
            slot=number,
            state="stepping" if self._is_stepping else "waiting",
            episodes=(self._episodes + self._slots - 1 - number) // self._slots,
        )


class SimulatedHandle:
    """Calls a simulated worker here and now."""

    def __init__(self, worker: SimulatedWorker) -> None:
        self._worker = worker

    def submit(self, method: str, *arguments: object) -> Future[Any]:
        """Call the method: none of them waits."""
        future: Future[Any] = Future()
        try:
            future.set_result(getattr(self._worker, method)(*arguments))
        except SimulatedFailure as failure:
            future.set_exception(failure)
        return future

    def kill(self) -> None:
        """Do nothing: there is nothing to end."""

    def obstacle(self) -> str:
        """Return nothing: objects always start."""
        return ""


class SimulatedWorkers:
    """Starts simulated workers; takes the place of a cluster under a manager."""

    def __init__(self, simulation: Simulation, *, clock: Clock = time.monotonic) -> None:
        self._simulation = simulation
        self._clock = clock

    def spawn(self, settings: WorkerSettings) -> SimulatedHandle:
        """Return a worker that is there at once."""
        return SimulatedHandle(SimulatedWorker(settings, self._simulation, clock=self._clock))

    def share(self, record: WeightsRecord) -> WeightsOffer:
        """Return the record itself."""
        return record

    def read_log(self, index: int, slot: int | None, lines: int) -> Future[Any] | None:  # noqa: ARG002
        """Return None: a simulated worker writes no log."""
        return None

    def close(self) -> None:
        """Do nothing: nothing is reserved."""

    def retire(self) -> None:
        """Do nothing: the manager is a part of its caller."""
