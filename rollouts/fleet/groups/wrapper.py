"""Wrapper of a language worker: applies commands and weights, sends groups, reports its state."""

import os
import threading
import time
from typing import Any, Final

from msgspec.structs import replace

from rolldeck.errors import RolldeckError
from rolldeck.operator_requests import LogLines, RecordingCommand, RecordingUpdate
from rolldeck.wire import SlotReport, WorkerReport
from rollouts.fleet.engine.checkpoints import CheckpointUnreadable
from rollouts.fleet.engine.tokenizers import TokenizerUnusable
from rollouts.fleet.groups.curriculum import Curriculum, PlatformCurriculum
from rollouts.fleet.groups.language_policy import LanguagePolicy, policy_of
from rollouts.fleet.groups.outbox import GroupSender, Outbox, PushGroups
from rollouts.fleet.groups.task_loop import Counted, Credits, TaskContext, TaskLoop, TaskSupply
from rollouts.fleet.groups.worker import GroupRolloutWorker
from rollouts.fleet.inference.contract import InferenceFailed
from rollouts.fleet.policies.policy_protocol import PolicyDoesNotFit
from rollouts.fleet.process.logs import read_stacks
from rollouts.fleet.process.settings import WorkerSettings, sequences_of
from rollouts.fleet.weights.records import Version, WeightsOffer
from rollouts.fleet.worker.episodes import EpisodeStatistics
from rollouts.fleet.worker.messages import WorkerCommand, WorkerState, obstacle_without_credits
from rollouts.fleet.worker.worker_runtime import Condition, WorkerRuntime

BATCHES_IN_FLIGHT: Final = 2
"""The engine works on one batch while the last answers of the other complete."""
CLOSE_SECONDS: Final = 1.5
"""Total time limit of a shutdown; parts that hang longer are abandoned."""
MISCONFIGURED: Final = (CheckpointUnreadable, TokenizerUnusable, PolicyDoesNotFit)


class GroupWorkerWrapper:
    """Wrapper of a :class:`GroupRolloutWorker`; thread-safe.

    It runs four loops: two for sampling, one for sending and one for weights. Its interface is
    that of :class:`rollouts.fleet.steps.wrapper.RolloutWorkerWrapper`.
    """

    def __init__(
        self,
        settings: WorkerSettings,
        *,
        push: PushGroups | None = None,
        curriculum: Curriculum | None = None,
        owns_process: bool = False,
    ) -> None:
        """Start all loops, paused, without weights or credits.

        Args:
            settings: Settings of the worker.
            push: Receives groups instead of the platform.
            curriculum: Provides tasks instead of the platform.
            owns_process: Whether all log output of the process belongs to this worker.
        """
        self._settings = settings
        coordination = self._runtime = WorkerRuntime(
            settings, owns_process=owns_process, env_processes=1, announce_ready=self._adopt
        )
        self._closing = threading.Event()
        self._weights = coordination.weights
        self._group_sender = GroupSender(
            push or (lambda body, key: coordination.api.push_groups(body, key=key))
        )
        self._sender = coordination.sender(self._group_sender)
        self._curriculum = curriculum or PlatformCurriculum(coordination.api, stop=self._closing)
        self._context = self._task_context()
        self._tasks = [TaskLoop(self._context, index=at) for at in range(BATCHES_IN_FLIGHT)]
        self._worker: GroupRolloutWorker | None = None
        self._policy: LanguagePolicy | None = None
        self._refusal = ""
        self._cannot_recover = False
        self._final_state: WorkerState | None = None
        self._lock = threading.Lock()
        self._building = threading.Lock()
        sampling = {f"rollout {at}": self._turn_of(task) for at, task in enumerate(self._tasks)}
        coordination.begin({**sampling, "sending": self._sender.turn})

    def heartbeat(self, command: WorkerCommand) -> WorkerState:
        """Apply a command and return the worker's state."""
        with self._lock:
            self._runtime.command = command
            for task in self._tasks:
                task.command = command
            self._context.credits.grant(command.credits)
            self._wake()
            return self._state(is_reporting=command.is_reporting)

    def update_weights(self, offer: WeightsOffer) -> Version:
        """Receive a version to load in the background; return the newest version known."""
        return self._weights.offer(offer)

    def record(self, command: RecordingCommand) -> None:
        """Refuse the recording: language runs have only text, which samples show."""
        update = RecordingUpdate(
            state="failed",
            worker=self._settings.index,
            reason="lessons have no video; the evaluations show samples",
        )
        try:
            self._runtime.api.update_recording(command.id, update)
        except RolldeckError as failure:
            self._runtime.events.add("recording_failed", str(failure), level="warning")

    def read_log(self, slot: int | None, lines: int) -> LogLines:
        """Return the end of the worker's log."""
        return self._runtime.read_log(slot, lines)

    def read_stacks(self) -> LogLines:
        """Return the stacks of all threads of the worker's process."""
        return read_stacks()

    def stop(self) -> WorkerState:
        """End all loops and the engine within two seconds; unsent groups stay in the spool.

        Returns:
            The final state of the worker.
        """
        if self._final_state is not None:
            return self._final_state
        until = time.monotonic() + CLOSE_SECONDS
        self._runtime.begin_shutdown()
        self._closing.set()
        self._wake()
        self._end(self._worker)
        self._runtime.wait_for_loops(until - time.monotonic())
        self._runtime.close()
        with self._lock:
            self._final_state = self._state(is_reporting=True)
        return self._final_state

    def _task_context(self) -> TaskContext:
        settings = self._settings
        worker_id = f"{settings.name}@{settings.incarnation}"
        return TaskContext(
            config=settings.fleet.config,
            worker_id=worker_id,
            supply=TaskSupply(self._curriculum, worker=worker_id),
            curriculum=self._curriculum,
            credits=Credits(),
            outbox=Outbox(self._sender.offer, worker=worker_id),
            has_room=self._sender.has_room,
            active=lambda: self._weights.active,
            monitor=self._runtime.monitor,
            events=self._runtime.events,
            counted=Counted(
                statistics=EpisodeStatistics(worker=settings.index, now=time.monotonic())
            ),
            wake=threading.Condition(),
            closing=self._closing,
        )

    def _turn_of(self, task: TaskLoop) -> Any:
        def turn() -> None:
            worker = self._built()
            if worker is None:
                self._closing.wait(1.0)
                return
            if task.command.desired == "paused" and not self._is_busy():
                self._rest()
            try:
                task.turn(worker)
            except InferenceFailed as failure:
                # The engine is unusable: the next turn builds a new one.
                self._runtime.events.add("inference_failed", str(failure), level="warning")
                self._end(worker)
                raise

        return turn

    def _rest(self) -> None:
        try:
            if self._policy is not None:
                self._policy.server.rest()
        except InferenceFailed as failure:
            text = f"The inference server was not put to sleep: {failure}"
            self._runtime.events.add("inference_failed", text, level="warning")

    def _built(self) -> GroupRolloutWorker | None:
        """Return the worker, built on the first call; None if it cannot be built."""
        with self._building:
            if self._worker is None and not self._refusal and not self._closing.is_set():
                try:
                    self._worker = self._build()
                except MISCONFIGURED as misfit:
                    kind = {
                        CheckpointUnreadable: "checkpoint_unreadable",
                        TokenizerUnusable: "tokenizer_unusable",
                    }.get(type(misfit), "policy_refused")
                    self._runtime.events.add(kind, str(misfit), level="error")
                    self._refusal = str(misfit)
                    self._cannot_recover = self._concerns_all(misfit)
            if self._closing.is_set():
                # The stop request arrived during the build.
                self._end(self._worker)
            return self._worker

    def _end(self, worker: GroupRolloutWorker | None) -> None:
        """Shut a worker down, unless another thread does."""
        with self._lock:
            if worker is None or worker is not self._worker:
                return
            self._worker = None
        worker.shutdown()

    def _build(self) -> GroupRolloutWorker:
        config = self._settings.fleet.config
        language = config.language
        if language is None:
            raise PolicyDoesNotFit("language", "the run has no language section")
        self._policy = policy_of(
            language,
            run=self._settings.fleet.run_key or self._settings.fleet.run,
            device=config.fleet.policy_device,
            rows=BATCHES_IN_FLIGHT * sequences_of(language),
        )
        self._weights.serve(self._policy, draw_with=self._policy.draw_with)
        return GroupRolloutWorker(
            language,
            server=self._policy.server,
            tokenizer=self._policy.tokenizer,
            context_tokens=self._policy.context_tokens,
            curriculum=self._curriculum,
            problem_seed=config.seed,
            events=self._runtime.events,
        )

    def _concerns_all(self, misfit: Exception) -> bool:
        """Return whether the problem affects every worker, not only this machine."""
        language = self._settings.fleet.config.language
        has_checkpoint = language is not None and bool(language.model.checkpoint)
        return not (has_checkpoint or isinstance(misfit, PolicyDoesNotFit))

    def _adopt(self) -> None:
        """Use a version as soon as it is ready; sequences in progress continue with it."""
        self._weights.adopt()
        self._wake()

    def _wake(self) -> None:
        with self._context.wake:
            self._context.wake.notify_all()

    def _state(self, *, is_reporting: bool) -> WorkerState:
        counted = self._context.counted
        # Read in the order in which sequences move on: one may count twice, but none is missed.
        unspent, sampling = self._context.credits.held()
        waiting = self._waiting_sequences()
        episodes = []
        if is_reporting:
            with counted.lock:
                episodes = counted.statistics.pop(time.monotonic())
        return WorkerState(
            report=self._report(is_reporting=is_reporting),
            unspent=unspent,
            outstanding=unspent + sampling + waiting,
            accepted=self._sender.accepted,
            is_drained=not sampling and not self._sender.waiting and not self._is_busy(),
            buffered_steps=sampling,
            episodes=episodes,
            events=self._runtime.events.pop(),
            cannot_recover=self._cannot_recover,
            refusal=self._weights.refusal,
        )

    def _waiting_sequences(self) -> int:
        """Return the number of unanswered sequences; inherited ones are estimated."""
        language = self._settings.fleet.config.language
        return self._sender.waiting * (sequences_of(language) if language else 1)

    def _is_busy(self) -> bool:
        return any(task.is_busy for task in self._tasks)

    def _report(self, *, is_reporting: bool) -> WorkerReport:
        now, counted = time.monotonic(), self._context.counted
        monitor = self._runtime.monitor
        monitor.count("episodes", counted.episodes)
        monitor.count("tokens", counted.tokens)
        common = self._runtime.report(
            self._condition(now), now=now, pids=(), is_reporting=is_reporting
        )
        tokens = monitor.rate("tokens")
        parts = [common.time_use, f"{tokens:,.0f} tokens/s." if tokens else ""]
        return replace(
            common,
            env_steps=counted.episodes,
            env_steps_per_second=monitor.rate("episodes"),
            fragments_cut=self._context.outbox.groups,
            fragments_sent=self._group_sender.sent,
            dropped_steps=self._dropped(),
            time_use=" ".join(filter(None, parts)),
            slots=self._slots(),
            replicas=self._policy.server.replicas() if self._policy and is_reporting else [],
        )

    def _dropped(self) -> dict[str, int]:
        counted = self._context.counted
        with counted.lock:
            return {**counted.dropped, **self._group_sender.dropped}

    def _slots(self) -> list[SlotReport]:
        return [
            SlotReport(
                slot=at,
                state="stepping" if task.is_busy else "waiting",
                pid=os.getpid(),
                episodes=task.episodes,
            )
            for at, task in enumerate(self._tasks)
        ]

    def _condition(self, now: float) -> tuple[Condition, str]:
        """Return the state of the worker, and the reason if it differs from the desired state."""
        if trouble := self._runtime.failure_reason(now):
            return "failed", trouble
        if self._refusal:
            return "failed", self._refusal
        command = self._runtime.command
        if self._worker is None:
            return "starting", self._runtime.error_of("rollout 0")
        if command.desired == "paused":
            return "paused", ""
        if command.desired == "draining":
            return "draining", ""
        return "running", self._obstacle()

    def _obstacle(self) -> str:
        active = self._weights.active
        if self._weights.refusal:
            return self._weights.refusal
        if self._policy is not None and (outage := self._policy.server.outage()):
            return outage
        if active is None or active[0] != self._runtime.command.epoch:
            return "waiting for the trainer's weights"
        if self._is_busy():
            return ""
        if self._context.supply.reason:
            return f"waiting: {self._context.supply.reason}"
        if self._context.credits.unspent:
            return ""
        return obstacle_without_credits(active, self._runtime.command)
