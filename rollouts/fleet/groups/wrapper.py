"""Wrapper of a language worker: applies commands and weights, sends groups, reports its state."""

import os
import threading
import time
from functools import partial
from typing import Final

import torch
from msgspec.structs import replace

from rolldeck.errors import RolldeckError
from rolldeck.operator_requests import RecordingCommand, RecordingUpdate
from rolldeck.tokenizer_files import FILE_NAME
from rolldeck.wire import SlotReport
from rollouts.fleet.engine.checkpoints import CheckpointUnreadable
from rollouts.fleet.engine.tokenizers import HuggingFaceTokenizer, Tokenizer, TokenizerUnusable
from rollouts.fleet.groups.curriculum import PlatformCurriculum
from rollouts.fleet.groups.language_policy import LanguagePolicy, policy_of
from rollouts.fleet.groups.outbox import GroupSender, Outbox
from rollouts.fleet.groups.task_loop import Counted, TaskContext, TaskLoop
from rollouts.fleet.groups.task_supply import Credits, TaskSupply
from rollouts.fleet.groups.worker import GroupRolloutWorker
from rollouts.fleet.inference.contract import InferenceFailed
from rollouts.fleet.platform_api import PlatformApi
from rollouts.fleet.policies.policy_protocol import PolicyDoesNotFit
from rollouts.fleet.process.loops import EventLog
from rollouts.fleet.process.settings import WorkerSettings
from rollouts.fleet.worker.episodes import EpisodeStatistics
from rollouts.fleet.worker.messages import WorkerCommand, WorkerState
from rollouts.fleet.worker.wrapper import WorkerWrapper

BATCHES_IN_FLIGHT: Final = 2
"""The engine works on one batch while the last answers of the other complete."""
MISCONFIGURED: Final = (CheckpointUnreadable, TokenizerUnusable, PolicyDoesNotFit)


class GroupWorkerWrapper(WorkerWrapper):
    """Wrapper of a :class:`GroupRolloutWorker`.

    It runs four loops: two for sampling, one for sending and one for weights.
    """

    close_seconds = 1.5
    main_loop = "rollout 0"

    def __init__(self, settings: WorkerSettings, *, owns_process: bool = False) -> None:
        """Start all loops, paused, without weights or credits."""
        self._closing = threading.Event()
        self._group_sender = GroupSender(
            lambda body, key: self.api.push_groups(body, key=key),
            on_end=lambda lesson, problems: self._context.supply.release(lesson, problems),
        )
        super().__init__(
            settings, owns_process=owns_process, env_processes=1, push=self._group_sender
        )
        self._curriculum = PlatformCurriculum(self.api, stop=self._closing)
        worker_id = f"{settings.name}@{settings.incarnation}"
        self._context = TaskContext(
            config=settings.fleet.config,
            worker_id=worker_id,
            supply=TaskSupply(self._curriculum, worker=worker_id),
            curriculum=self._curriculum,
            credits=Credits(),
            outbox=Outbox(self.sender.offer, worker=worker_id),
            has_room=self.sender.has_room,
            active=lambda: self.weights.active,
            monitor=self.monitor,
            events=self.events,
            counted=Counted(
                statistics=EpisodeStatistics(worker=settings.index, now=time.monotonic())
            ),
            wake=threading.Condition(),
            closing=self._closing,
        )
        self._tasks = [TaskLoop(self._context, index=at) for at in range(BATCHES_IN_FLIGHT)]
        self._worker: GroupRolloutWorker | None = None
        self._policy: LanguagePolicy | None = None
        self._refusal = ""
        self._cannot_recover = False
        self._building = threading.Lock()
        self.begin(
            {f"rollout {at}": partial(self._turn, task) for at, task in enumerate(self._tasks)}
        )

    @property
    def is_started(self) -> bool:
        return self._worker is not None

    def receive(self, command: WorkerCommand) -> None:
        for task in self._tasks:
            task.command = command
        self._context.credits.grant(command.credits)

    def record(self, command: RecordingCommand) -> None:
        """Refuse the recording: language runs have only text, which samples show."""
        update = RecordingUpdate(
            state="failed",
            worker=self.settings.index,
            reason="lessons have no video; the evaluations show samples",
        )
        try:
            self.api.update_recording(command.id, update)
        except RolldeckError as failure:
            self.events.add("recording_failed", str(failure), level="warning")

    def on_weights_ready(self) -> None:
        """Use the version at once; sequences in progress continue with it."""
        self.weights.adopt()
        self.wake()

    def wake(self) -> None:
        with self._context.wake:
            self._context.wake.notify_all()

    def end_waits(self) -> None:
        self._closing.set()
        self.wake()
        self._end(self._worker)

    def release(self) -> None:
        """Do nothing: `end_waits` has ended the worker."""

    def state(self, *, is_reporting: bool) -> WorkerState:
        counted = self._context.counted
        # Read in the order in which sequences move on: one may count twice, but none is missed.
        unspent, sampling = self._context.credits.held()
        # Inherited groups are estimated, because their size is unknown.
        waiting = self.sender.waiting * self.settings.fleet.items_at_once
        episodes = []
        if is_reporting:
            with counted.lock:
                episodes = counted.statistics.pop(time.monotonic())
        self.monitor.count("episodes", counted.episodes)
        self.monitor.count("tokens", counted.tokens)
        common = self.report(pids=(), is_reporting=is_reporting)
        with counted.lock:
            dropped = {**counted.dropped, **self._group_sender.dropped}
        tokens = self.monitor.rate("tokens")
        time_use = [common.time_use, f"{tokens:,.0f} tokens/s." if tokens else ""]
        slots = [
            SlotReport(
                slot=at,
                state="stepping" if task.is_busy else "waiting",
                pid=os.getpid(),
                episodes=task.episodes,
            )
            for at, task in enumerate(self._tasks)
        ]
        report = replace(
            common,
            env_steps=counted.episodes,
            env_steps_per_second=self.monitor.rate("episodes"),
            fragments_cut=self._context.outbox.groups,
            fragments_sent=self._group_sender.sent,
            dropped_steps=dropped,
            time_use=" ".join(filter(None, time_use)),
            slots=slots,
            unanswered_seconds=self._policy.server.unanswered_seconds() if self._policy else 0.0,
            replicas=self._policy.server.replicas() if self._policy and is_reporting else [],
        )
        return WorkerState(
            report=report,
            unspent=unspent,
            outstanding=unspent + sampling + waiting,
            accepted=self.sender.accepted,
            is_drained=not sampling and not self.sender.waiting and not self._is_busy(),
            buffered_steps=sampling,
            episodes=episodes,
            events=self.events.pop(),
            cannot_recover=self._cannot_recover,
            refusal=self.weights.refusal,
        )

    def failure(self) -> str:
        return self._refusal

    def outage(self) -> str:
        return self._policy.server.outage() if self._policy is not None else ""

    def obstacle(self) -> str | None:
        if self._is_busy():
            return ""
        if self._context.supply.reason:
            return f"waiting: {self._context.supply.reason}"
        return "" if self._context.credits.unspent else None

    def _turn(self, task: TaskLoop) -> None:
        worker = self._built()
        if worker is None:
            self._closing.wait(1.0)
            return
        if task.command.desired == "paused" and not self._is_busy() and self._policy is not None:
            try:
                self._policy.server.rest()
            except InferenceFailed as failure:
                text = f"The inference server was not put to sleep: {failure}"
                self.events.add("inference_failed", text, level="warning")
        try:
            task.turn(worker)
        except InferenceFailed as failure:
            # The engine is unusable: the next turn builds a new one.
            self.events.add("inference_failed", str(failure), level="warning")
            self._end(worker)
            language = self.settings.fleet.config.language
            if language is None or not language.inference:
                raise  # a new process may help the own engine, but not another server
            task.pause()

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
                    self.events.add(kind, str(misfit), level="error")
                    self._refusal = str(misfit)
                    # Another machine may have the checkpoint or the device.
                    language = self.settings.fleet.config.language
                    has_checkpoint = language is not None and bool(language.model.checkpoint)
                    is_of_machine = has_checkpoint or isinstance(misfit, PolicyDoesNotFit)
                    self._cannot_recover = not is_of_machine
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
        config = self.settings.fleet.config
        language = config.language
        if language is None:
            raise PolicyDoesNotFit("language", "the run has no language section")
        # Workers share their machine; more threads per worker slow each other down.
        torch.set_num_threads(1)
        self._policy = policy_of(
            language,
            run=self.settings.fleet.run_key or self.settings.fleet.run,
            device=config.fleet.policy_device,
            rows=BATCHES_IN_FLIGHT * language.most_sequences,
        )
        self.weights.serve(self._policy, draw_with=self._policy.draw_with)
        store_on_platform(self._policy.tokenizer, self.api, self.events)
        return GroupRolloutWorker(
            language,
            server=self._policy.server,
            tokenizer=self._policy.tokenizer,
            context_tokens=self._policy.context_tokens,
            curriculum=self._curriculum,
            problem_seed=config.seed,
            events=self.events,
        )

    def _is_busy(self) -> bool:
        return any(task.is_busy for task in self._tasks)


def store_on_platform(tokenizer: Tokenizer, api: PlatformApi, events: EventLog) -> None:
    """Store the tokenizer of a checkpoint, unless the run has one.

    The platform knows the built-in tokenizers. A failure is an event: sampling continues.
    """
    if not isinstance(tokenizer, HuggingFaceTokenizer):
        return
    try:
        api.offer_tokenizer((tokenizer.folder / FILE_NAME).read_bytes())
    except (RolldeckError, OSError) as failure:
        text = f"Tokens are shown as numbers, because the tokenizer was not stored: {failure}"
        events.add("tokenizer_not_stored", text, level="warning")
