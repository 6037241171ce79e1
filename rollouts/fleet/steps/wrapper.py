"""Wrapper of a step worker: applies commands and weights, sends fragments, reports its state."""

import logging
import time

from msgspec.structs import replace

from rolldeck.operator_requests import RecordingCommand
from rolldeck.wire import EpisodeWindow, InfoWindow, encode
from rollouts.fleet.process.settings import WorkerSettings
from rollouts.fleet.spool.sender import Push
from rollouts.fleet.steps.evaluator import Evaluator
from rollouts.fleet.steps.fragments import FragmentBuilder
from rollouts.fleet.steps.recordings import Recordings
from rollouts.fleet.steps.step_worker import PolicyFactory, StepRolloutWorker
from rollouts.fleet.worker.messages import IDLE, WorkerCommand, WorkerState
from rollouts.fleet.worker.wrapper import WorkerWrapper

logger = logging.getLogger(__name__)


class RolloutWorkerWrapper(WorkerWrapper):
    """Wrapper of a :class:`StepRolloutWorker`.

    It runs four loops: rollout, sending, recordings and weights; a fifth one, if the worker
    evaluates.
    """

    close_seconds = 3.0
    main_loop = "rollout"

    def __init__(
        self,
        settings: WorkerSettings,
        *,
        push: Push | None = None,
        policy_factory: PolicyFactory | None = None,
        owns_process: bool = False,
    ) -> None:
        """Start all loops, paused, without weights or credits.

        `push` receives fragments instead of the platform.
        """
        fleet = settings.fleet.config.fleet
        self._worker: StepRolloutWorker | None = None
        self._policy_factory = policy_factory
        self._last_command = IDLE
        super().__init__(
            settings, owns_process=owns_process, env_processes=fleet.env_processes, push=push
        )
        self._fragment_builder = FragmentBuilder(
            settings,
            deliver=lambda fragment: self.sender.offer(encode(fragment)),
            has_room=self.sender.has_room,
            monitor=self.monitor,
        )
        self._recordings = Recordings(
            worker=settings.index, slots=fleet.envs_per_worker, api=self.api
        )
        self._evaluator: Evaluator | None = None
        if Evaluator.is_needed(settings):
            self._evaluator = Evaluator(
                settings, weights=self.weights, events=self.events, policy_factory=policy_factory
            )
        self.begin(
            {
                "rollout": self._turn,
                "recordings": self._recordings.turn,
                **({"evaluation": self._evaluator.turn} if self._evaluator else {}),
            }
        )

    @property
    def applied(self) -> WorkerCommand:
        return self._last_command

    @property
    def is_started(self) -> bool:
        return self._worker is not None and not self._worker.is_preparing

    def receive(self, command: WorkerCommand) -> None:
        if self._evaluator is not None:
            self._evaluator.command = command
        self._fragment_builder.grant(command.credits)

    def record(self, command: RecordingCommand) -> None:
        self._recordings.add(command)
        self.wake()

    def wake(self) -> None:
        worker = self._worker
        if worker is not None:
            worker.wake()

    def end_waits(self) -> None:
        self._recordings.close()
        if self._evaluator is not None:
            self._evaluator.close()
        self.wake()

    def release(self) -> None:
        if self._worker is not None:
            self._worker.close()
            self._worker = None
        self._fragment_builder.end()

    def state(self, *, is_reporting: bool) -> WorkerState:
        # Read in the order in which fragments move on: one may count twice, but none is missed.
        unspent, being_filled = self._fragment_builder.held()
        to_send = self.sender.waiting
        episodes, info = list[EpisodeWindow](), InfoWindow()
        if is_reporting:
            episodes = self._fragment_builder.pop_episodes()
            if self._evaluator is not None:
                episodes += self._evaluator.pop_episodes()
                self._fragment_builder.reported_info(self._evaluator.pop_info())
            info = self._fragment_builder.pop_info()
        now = time.monotonic()
        slots = self._worker.reports() if self._worker else []
        self.monitor.count("env_steps", self._fragment_builder.env_steps)
        report = replace(
            self.report(pids=[slot.pid for slot in slots if slot.pid], is_reporting=is_reporting),
            env_steps=self._fragment_builder.env_steps,
            env_steps_per_second=self.monitor.rate("env_steps"),
            fragments_cut=self._fragment_builder.fragments_cut,
            fragments_sent=self.sender.sent,
            dropped_steps=dict(self._fragment_builder.dropped_steps),
            slots=slots,
        )
        return WorkerState(
            report=report,
            unspent=unspent,
            outstanding=unspent + being_filled + to_send,
            accepted=self.sender.accepted,
            is_drained=not being_filled and not to_send,
            cannot_recover=self._worker is not None and self._worker.cannot_recover,
            is_policy_hung=self._worker is not None and self._worker.is_policy_hung(now),
            refusal=self.weights.refusal,
            buffered_steps=self._fragment_builder.buffered_steps,
            episodes=episodes,
            info=info,
            events=self.events.pop(),
            evaluation=self._evaluator.pending if self._evaluator else None,
        )

    def failure(self) -> str:
        worker = self._worker
        if worker is None or worker.is_preparing:
            return ""
        if trouble := worker.hung(time.monotonic()) or worker.refusal:
            return trouble
        return "every environment slot was given up" if worker.is_broken else ""

    def obstacle(self) -> str | None:
        return "" if any(self._fragment_builder.held()) else None

    def _turn(self) -> None:
        worker = self._worker
        if worker is None:
            self._last_command = IDLE
            worker = StepRolloutWorker(
                self.settings,
                weights=self.weights,
                progress_handler=self._fragment_builder,
                monitor=self.monitor,
                events=self.events,
                policy_factory=self._policy_factory,
                recordings=self._recordings,
            )
            worker.is_paused = True
            self._worker = worker
        command, before = self.command, self._last_command
        if command is not before:
            self._fragment_builder.set_command(
                epoch=command.epoch,
                policy_step=command.policy_step,
                begins_fragments=command.desired == "running",
            )
            if (command.desired, command.epoch) != (before.desired, before.epoch):
                logger.info("command received: %s, epoch %d", command.desired, command.epoch)
            if command.policy_step != before.policy_step:
                logger.info("version %d announced", command.policy_step)
            self._fragment_builder.drop_stale_steps()
            worker.epoch, worker.newest_step = command.epoch, command.policy_step
            worker.is_paused = command.desired != "running"
            if command.desired == "draining":
                self._fragment_builder.drain()
            self._last_command = command
        try:
            worker.turn()
        except Exception:
            # The state of the worker is unknown: the next turn builds a new one.
            self._worker = None
            worker.close()
            for slot in range(self.settings.fleet.config.fleet.envs_per_worker):
                self._fragment_builder.aborted(slot)
            raise
