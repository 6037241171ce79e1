"""Simulated workers, to test a platform with more workers than the machine could run.

:class:`SimulatedWorkers` replaces a cluster below a real manager. Each of its workers is an object
that computes on demand the work of a real worker since the last call.
"""

import random
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Literal

from rolldeck.wire import SlotReport, WeightsTransfers, WorkerReport
from rollouts.fleet.process.settings import FleetSettings, WorkerSettings, derive_seed
from rollouts.fleet.simulated.output import SimulatedOutput
from rollouts.fleet.simulated.sampling import SimulatedFailure
from rollouts.fleet.spool.platform_api import PlatformApi
from rollouts.fleet.weights.records import NO_STEP, WeightsOffer, WeightsRecord
from rollouts.fleet.worker.episodes import Episode, EpisodeStatistics
from rollouts.fleet.worker.messages import IDLE, WorkerCommand, WorkerState
from runs.config.rules.simulated_fleet import Simulation

Clock = Callable[[], float]


class SimulatedWorker:
    """Simulation of a :class:`rollouts.fleet.steps.wrapper.RolloutWorkerWrapper`."""

    def __init__(
        self,
        settings: WorkerSettings,
        simulation: Simulation,
        *,
        clock: Clock,
        output: SimulatedOutput | None = None,
    ) -> None:
        """Start paused.

        Args:
            settings: Settings of the worker.
            simulation: Parameters of the simulated work.
            clock: Monotonic clock in seconds.
            output: Sends real fragments; None sends none.
        """
        config = settings.fleet.config
        self._settings = settings
        self._simulation = simulation
        self._slots = config.fleet.envs_per_worker
        self._spec = config.environment.spec
        # Not used for cryptography.
        self._random = random.Random(derive_seed(config.seed, settings.incarnation))  # noqa: S311
        self._now = self._measured_at = clock()
        self._clock = clock
        rate = simulation.failures_per_hour / 3600
        self._dies_at = self._now + self._random.expovariate(rate) if rate else float("inf")
        self._command = IDLE
        self._version = (0, NO_STEP)
        self._order = 0
        self._steps = self._steps_measured = 0.0
        self._episodes = 0
        self._output = output
        self._fragment_length = config.fleet.fragment_length
        self._unspent = self._sent = self._answered = self._accepted = 0
        self._statistics = EpisodeStatistics(worker=settings.index, now=self._now)

    def heartbeat(self, command: WorkerCommand) -> WorkerState:
        """Compute the work since the last command, and apply this one.

        Raises:
            SimulatedFailure: If the worker has failed in the meantime.
        """
        now = self._clock()
        if now >= self._dies_at:
            raise SimulatedFailure("the simulated worker died")
        if self._is_stepping:
            pace = max(0.1, self._random.gauss(1.0, self._simulation.spread))
            self._steps += (now - self._now) * self._slots * pace / self._simulation.step_seconds
            self._end_episodes()
            self._send(now)
        self._now, self._command = now, command
        self._unspent += command.credits if self._output else 0
        on_their_way = self._sent - self._answered
        return WorkerState(
            report=self._report(now, is_reporting=command.is_reporting),
            unspent=self._unspent,
            outstanding=self._unspent + on_their_way,
            accepted=self._accepted,
            is_drained=command.desired == "draining" and not on_their_way,
            episodes=self._statistics.pop(now) if command.is_reporting else [],
        )

    def update_weights(self, offer: WeightsOffer) -> tuple[int, int]:
        """Simulate loading a version."""
        if offer.rank >= (self._order, *self._version):
            self._order, self._version = offer.rank[0], offer.version
        return self._version

    def read_log(self, *_: object) -> None:
        """Return None: there is no log."""

    def read_stacks(self) -> None:
        """Return None: there are no threads."""

    def stop(self) -> None:
        """Do nothing: there is nothing to end."""

    @property
    def _is_stepping(self) -> bool:
        return self._command.desired == "running" and self._version[1] > NO_STEP

    def _send(self, now: float) -> None:
        """Send a fragment if one is complete, a credit is left, and the rate allows it."""
        if self._output is None or not self._unspent:
            return
        if self._steps < (self._sent + 1) * self._fragment_length or not self._output.may_send(now):
            return
        number, slot = divmod(self._sent, self._slots)
        self._unspent -= 1
        self._sent += 1
        self._output.offer(
            slot=self._settings.slot_name(slot),
            number=number,
            worker=f"{self._settings.name}@{self._settings.incarnation}",
            version=self._version,
            answered=self._receive_answer,
        )

    def _receive_answer(self, is_accepted: bool) -> None:
        # Count before release: a credit is never free before its fragment is counted.
        self._accepted += is_accepted
        self._answered += 1

    def _end_episodes(self) -> None:
        """End the episodes that the steps so far complete."""
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
        if self._command.desired in {"draining", "paused"}:
            state = self._command.desired
        step = self._version[1]
        return WorkerReport(
            index=self._settings.index,
            incarnation=self._settings.incarnation,
            state=state,
            node="simulated",
            announced_step=self._command.policy_step,
            staged_step=step,
            active_step=step,
            env_steps=int(self._steps),
            env_steps_per_second=max(0.0, speed),
            fragments_cut=self._sent,
            fragments_sent=self._answered,
            to_send=self._sent - self._answered,
            transfers=WeightsTransfers(order=self._order),
            slots=[self._slot(number) for number in range(self._slots)],
        )

    def _slot(self, number: int) -> SlotReport:
        return SlotReport(
            slot=number,
            state="stepping" if self._is_stepping else "waiting",
            episodes=(self._episodes + self._slots - 1 - number) // self._slots,
        )


class SimulatedHandle:
    """Handle that calls a simulated worker synchronously."""

    def __init__(self, worker: SimulatedWorker) -> None:
        self._worker = worker

    def submit(self, method: str, *arguments: object) -> Future[Any]:
        """Call the method; no method waits."""
        future: Future[Any] = Future()
        try:
            future.set_result(getattr(self._worker, method)(*arguments))
        except SimulatedFailure as failure:
            future.set_exception(failure)
        return future

    def kill(self) -> None:
        """Do nothing: there is nothing to end."""

    def obstacle(self) -> str:
        """Return an empty string: objects always start."""
        return ""

    def is_placed(self) -> bool:
        """Return True: the worker is in the manager's process."""
        return True


class SimulatedWorkers:
    """Source of simulated workers, instead of a cluster."""

    def __init__(
        self,
        simulation: Simulation,
        *,
        settings: FleetSettings | None = None,
        clock: Clock = time.monotonic,
        retire: Callable[[], None] = lambda: None,
    ) -> None:
        """Set up the source.

        Args:
            simulation: Parameters of the simulated work.
            settings: Settings of the fleet, if it also sends real fragments.
            clock: Monotonic clock in seconds.
            retire: Ends the process that holds the manager.
        """
        self._simulation = simulation
        self._clock = clock
        self._retire = retire
        self._api: PlatformApi | None = None
        self._output: SimulatedOutput | None = None
        if settings is not None and simulation.fragments_per_second:
            self._api = PlatformApi(settings)
            self._output = SimulatedOutput(settings, simulation, push=self._api.push)

    def spawn(self, settings: WorkerSettings) -> SimulatedHandle:
        """Return a worker that is ready at once."""
        worker = SimulatedWorker(settings, self._simulation, clock=self._clock, output=self._output)
        return SimulatedHandle(worker)

    def exclude_nodes(self, nodes: frozenset[str]) -> None:
        """Do nothing: all workers are in the manager's process."""

    def share(self, record: WeightsRecord) -> WeightsOffer:
        """Return the record itself."""
        return record

    def read_log(self, index: int, slot: int | None, lines: int) -> Future[Any] | None:  # noqa: ARG002
        """Return None: simulated workers have no logs."""
        return None

    def close(self) -> None:
        """Stop sending fragments."""
        if self._output is not None and self._api is not None:
            self._output.close()
            self._api.close()
            self._output = self._api = None

    def retire(self) -> None:
        """End the process that holds the manager."""
        self._retire()
