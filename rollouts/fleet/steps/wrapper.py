"""Wrapper of a rollout worker: applies commands and weights, sends fragments, reports its state."""

import logging
import threading
import time
from typing import Final

from msgspec.structs import replace

from rolldeck.operator_requests import LogLines, RecordingCommand
from rolldeck.wire import EpisodeWindow, Fragment, InfoWindow, WorkerReport, encode
from rollouts.fleet.process.logs import read_stacks
from rollouts.fleet.process.settings import WorkerSettings
from rollouts.fleet.spool.sender import Push
from rollouts.fleet.steps.evaluator import Evaluator
from rollouts.fleet.steps.fragments import FragmentBuilder
from rollouts.fleet.steps.recordings import Recordings
from rollouts.fleet.steps.step_worker import PolicyFactory, StepRolloutWorker
from rollouts.fleet.weights.records import Version, WeightsOffer
from rollouts.fleet.worker.messages import (
    IDLE,
    WorkerCommand,
    WorkerState,
    obstacle_without_credits,
)
from rollouts.fleet.worker.worker_runtime import Condition, WorkerRuntime

logger = logging.getLogger(__name__)

CLOSE_SECONDS: Final = 3.0
"""Time limit for all loops to end their turns."""


class RolloutWorkerWrapper:
    """Wrapper of a :class:`StepRolloutWorker`; thread-safe.

    It runs four loops: rollout, sending, recordings and weights; a fifth one, if the worker
    evaluates. A loop that crashes is restarted
    with an event. When it crashes too often, the worker reports `failed` and its manager replaces
    it.
    """

    def __init__(
        self,
        settings: WorkerSettings,
        *,
        push: Push | None = None,
        policy_factory: PolicyFactory | None = None,
        owns_process: bool = False,
    ) -> None:
        """Start all loops, paused, without weights or credits.

        Args:
            settings: Settings of the worker.
            push: Receives fragments instead of the platform.
            policy_factory: Creates another policy than the configured one.
            owns_process: Whether all log output of the process belongs to this worker.
        """
        self._settings = settings
        self._policy_factory = policy_factory
        fleet = settings.fleet.config.fleet
        coordination = self._runtime = WorkerRuntime(
            settings,
            owns_process=owns_process,
            env_processes=fleet.env_processes,
            announce_ready=self._wake,
        )
        self._weights = coordination.weights
        self._sender = coordination.sender(push or coordination.api.push)
        self._fragment_builder = FragmentBuilder(
            settings,
            deliver=self._deliver,
            has_room=self._sender.has_room,
            monitor=coordination.monitor,
        )
        self._recordings = Recordings(
            worker=settings.index, slots=fleet.envs_per_worker, api=coordination.api
        )
        self._evaluator: Evaluator | None = None
        if Evaluator.is_needed(settings):
            self._evaluator = Evaluator(
                settings,
                weights=self._weights,
                events=coordination.events,
                policy_factory=policy_factory,
            )
        self._last_command = IDLE
        self._worker: StepRolloutWorker | None = None
        self._lock = threading.Lock()
        coordination.begin(
            {
                "rollout": self._turn,
                "sending": self._sender.turn,
                "recordings": self._recordings.turn,
                **({"evaluation": self._evaluator.turn} if self._evaluator else {}),
            }
        )

    def heartbeat(self, command: WorkerCommand) -> WorkerState:
        """Apply a command and return the worker's state."""
        with self._lock:
            self._runtime.command = command
            if self._evaluator is not None:
                self._evaluator.command = command
            self._fragment_builder.grant(command.credits)
            self._wake()
            return self._state(is_reporting=command.is_reporting)

    def update_weights(self, offer: WeightsOffer) -> Version:
        """Receive a version to load in the background; return the newest version known."""
        return self._weights.offer(offer)

    def record(self, command: RecordingCommand) -> None:
        """Record the next episode of a slot."""
        self._recordings.add(command)
        self._wake()

    def read_log(self, slot: int | None, lines: int) -> LogLines:
        """Return the end of the worker's log, or of the log of the env process that runs `slot`."""
        return self._runtime.read_log(slot, lines)

    def read_stacks(self) -> LogLines:
        """Return the stacks of all threads of the worker's process."""
        return read_stacks()

    def stop(self) -> WorkerState:
        """End all loops and environments; unsent fragments stay in the spool.

        Returns:
            The final state of the worker.
        """
        self._runtime.begin_shutdown()
        self._recordings.close()
        if self._evaluator is not None:
            self._evaluator.close()
        self._wake()
        self._runtime.wait_for_loops(CLOSE_SECONDS)
        if self._worker is not None:
            self._worker.close()
            self._worker = None
        self._fragment_builder.end()
        self._runtime.close()
        with self._lock:
            return self._state(is_reporting=True)

    def _deliver(self, fragment: Fragment) -> None:
        self._sender.offer(encode(fragment))

    def _wake(self) -> None:
        worker = self._worker
        if worker is not None:
            worker.wake()

    def _turn(self) -> None:
        worker = self._worker or self._build()
        command = self._runtime.command
        if command is not self._last_command:
            self._apply(worker, command)
        try:
            worker.turn()
        except Exception:
            # The state of the worker is unknown: the next turn builds a new one.
            self._worker = None
            worker.close()
            for slot in range(self._settings.fleet.config.fleet.envs_per_worker):
                self._fragment_builder.aborted(slot)
            raise

    def _build(self) -> StepRolloutWorker:
        self._last_command = IDLE
        worker = StepRolloutWorker(
            self._settings,
            weights=self._weights,
            progress_handler=self._fragment_builder,
            monitor=self._runtime.monitor,
            events=self._runtime.events,
            policy_factory=self._policy_factory,
            recordings=self._recordings,
        )
        worker.is_paused = True
        self._worker = worker
        return worker

    def _apply(self, worker: StepRolloutWorker, command: WorkerCommand) -> None:
        self._fragment_builder.set_command(
            epoch=command.epoch,
            policy_step=command.policy_step,
            begins_fragments=command.desired == "running",
        )
        before = self._last_command
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

    def _state(self, *, is_reporting: bool) -> WorkerState:
        # Read in the order in which fragments move on: one may count twice, but none is missed.
        unspent, being_filled = self._fragment_builder.held()
        to_send = self._sender.waiting
        return WorkerState(
            report=self._report(is_reporting=is_reporting),
            unspent=unspent,
            outstanding=unspent + being_filled + to_send,
            accepted=self._sender.accepted,
            is_drained=not being_filled and not to_send,
            cannot_recover=self._worker is not None and self._worker.cannot_recover,
            is_policy_hung=self._worker is not None and self._is_policy_hung(self._worker),
            refusal=self._weights.refusal,
            buffered_steps=self._fragment_builder.buffered_steps,
            episodes=self._pop_episodes() if is_reporting else [],
            info=self._pop_info() if is_reporting else InfoWindow(),
            events=self._runtime.events.pop(),
            evaluation=self._evaluator.pending if self._evaluator else None,
        )

    def _pop_info(self) -> InfoWindow:
        if self._evaluator is not None:
            self._fragment_builder.reported_info(self._evaluator.pop_info())
        return self._fragment_builder.pop_info()

    def _pop_episodes(self) -> list[EpisodeWindow]:
        evaluated = self._evaluator.pop_episodes() if self._evaluator else []
        return self._fragment_builder.pop_episodes() + evaluated

    def _report(self, *, is_reporting: bool) -> WorkerReport:
        worker, now = self._worker, time.monotonic()
        slots = worker.reports() if worker else []
        self._runtime.monitor.count("env_steps", self._fragment_builder.env_steps)
        common = self._runtime.report(
            self._condition(worker, now),
            now=now,
            pids=[slot.pid for slot in slots if slot.pid],
            is_reporting=is_reporting,
        )
        return replace(
            common,
            env_steps=self._fragment_builder.env_steps,
            env_steps_per_second=self._runtime.monitor.rate("env_steps"),
            fragments_cut=self._fragment_builder.fragments_cut,
            fragments_sent=self._sender.sent,
            dropped_steps=dict(self._fragment_builder.dropped_steps),
            slots=slots,
        )

    def _condition(self, worker: StepRolloutWorker | None, now: float) -> tuple[Condition, str]:
        """Return the state of the worker, and the reason if it differs from the desired state."""
        if trouble := self._runtime.failure_reason(now):
            return "failed", trouble
        if worker is None or worker.is_preparing:
            return "starting", self._runtime.error_of("rollout")
        if failure := self._failure(worker):
            return "failed", failure
        if self._last_command.desired == "paused":
            return "paused", ""
        if self._last_command.desired == "draining":
            return "draining", ""
        return "running", self._obstacle()

    def _failure(self, worker: StepRolloutWorker) -> str:
        """Return why the worker can make no progress; empty if it can."""
        if self._is_policy_hung(worker):
            config = self._settings.fleet.config
            has_callbacks = bool(config.environment.step_callbacks)
            called = "the policy or a step callback" if has_callbacks else "the policy"
            limit = config.policy.hung_after_seconds
            return f"{called} did not return for {limit:g} s (policy.hung_after_seconds)"
        hung_after = self._settings.fleet.config.environment.hung_after_seconds
        if worker.hanging_seconds(time.monotonic()) > hung_after:
            return f"an environment in the worker's process did not return for {hung_after:.0f} s"
        return worker.refusal or ("every environment slot was given up" if worker.is_broken else "")

    def _is_policy_hung(self, worker: StepRolloutWorker) -> bool:
        limit = self._settings.fleet.config.policy.hung_after_seconds
        return worker.policy_seconds(time.monotonic()) > limit

    def _obstacle(self) -> str:
        active = self._weights.active
        if active is None or active[0] != self._last_command.epoch:
            return self._weights.refusal or "waiting for the trainer's weights"
        if self._weights.refusal:
            return self._weights.refusal
        if any(self._fragment_builder.held()):
            return ""
        return obstacle_without_credits(active, self._last_command)
