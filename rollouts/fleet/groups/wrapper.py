"""Coordinate a worker of a language run: orders and weights in, groups, outcomes and state out."""

import os
import socket
import threading
import time
from typing import Any, Final

from rolldeck.errands import LogLines, RecordingOrder, RecordingUpdate
from rolldeck.errors import RolldeckError
from rolldeck.wire import SlotReport, WorkerReport
from rollouts.core.episodes import EpisodeStatistics
from rollouts.core.pipeline import PipelineMonitor, judge
from rollouts.fleet import log_files
from rollouts.fleet.acting import PolicyDoesNotFit
from rollouts.fleet.clean_start import clean_start
from rollouts.fleet.errands import read_log
from rollouts.fleet.groups.credits import Credits
from rollouts.fleet.groups.curriculum import Curriculum
from rollouts.fleet.groups.language_policy import LanguagePolicy, policy_of
from rollouts.fleet.groups.outbox import Outbox, Postman, PushGroups
from rollouts.fleet.groups.platform_curriculum import PlatformCurriculum
from rollouts.fleet.groups.task_loop import Counted, Surroundings, TaskLoop
from rollouts.fleet.groups.task_supply import TaskSupply
from rollouts.fleet.groups.worker import GroupRolloutWorker
from rollouts.fleet.inference import InferenceFailed
from rollouts.fleet.language.checkpoints import CheckpointUnreadable
from rollouts.fleet.language.tokenizers import TokenizerUnusable
from rollouts.fleet.log_capture import ActorLog
from rollouts.fleet.log_files import RingFile
from rollouts.fleet.loops import EventLog, Loop
from rollouts.fleet.messages import IDLE, Orders, WorkerState
from rollouts.fleet.platform_api import PlatformApi
from rollouts.fleet.resources import ResourceMeter
from rollouts.fleet.sender import Sender
from rollouts.fleet.settings import WorkerSettings, sequences_of
from rollouts.fleet.spool import Spool
from rollouts.fleet.weights import NO_STEP, Version, WeightsOffer
from rollouts.fleet.weights_loader import WeightsLoader
from rollouts.fleet.wrapper import CLOSE_SECONDS, Condition, estate_of

BATCHES_IN_FLIGHT: Final = 2
"""The engine works on one while the last answers of the other come in."""
MISCONFIGURED: Final = (CheckpointUnreadable, TokenizerUnusable, PolicyDoesNotFit)


class GroupWorkerWrapper:
    """Holds a :class:`GroupRolloutWorker`; every method may be called from any thread.

    Four loops run: two that sample, sending and weights. It looks to its manager as a
    :class:`rollouts.fleet.wrapper.RolloutWorkerWrapper` does.
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
            settings: Of the worker.
            push: Takes groups in place of the platform.
            curriculum: Gives tasks in place of the platform.
            owns_process: Whether whatever the process logs belongs to this worker.
        """
        self._settings = settings
        config = settings.fleet.config
        log = log_files.log_of(settings.fleet, worker=settings.index, slot=None)
        self._log = ActorLog(RingFile(log), threads=("" if owns_process else f"{settings.name} ",))
        self._api = PlatformApi(settings.fleet)
        self._events = EventLog()
        if owns_process:
            clean_start(settings, self._events)
        estate = estate_of(settings.fleet, self._events)
        self._closing = threading.Event()
        self._monitor = PipelineMonitor(now=time.monotonic(), env_processes=1)
        self._meter = ResourceMeter()
        self._weights = WeightsLoader(self._events, announce_ready=self._adopt)
        self._postman = Postman(push or (lambda body, key: self._api.push_groups(body, key=key)))
        self._sender = Sender(
            self._postman,
            spool=Spool(estate.folder / settings.incarnation),
            inherit=estate.next_inheritance,
            capacity=config.fleet.to_send_queue_size,
            events=self._events,
            monitor=self._monitor,
        )
        self._curriculum = curriculum or PlatformCurriculum(self._api, stop=self._closing)
        self._around = self._surroundings()
        self._tasks = [TaskLoop(self._around, index=at) for at in range(BATCHES_IN_FLIGHT)]
        self._orders: Orders = IDLE
        self._worker: GroupRolloutWorker | None = None
        self._policy: LanguagePolicy | None = None
        self._refusal = ""
        self._is_hopeless = False
        self._measured = (time.monotonic(), 0, 0)
        self._lock = threading.Lock()
        self._building = threading.Lock()
        self._sampling = [
            Loop(f"{settings.name} rollout {at}", self._turn_of(task), self._events)
            for at, task in enumerate(self._tasks)
        ]
        sending = Loop(f"{settings.name} sending", self._sender.turn, self._events)
        loading = Loop(f"{settings.name} weights", self._weights.turn, self._events)
        self._loops = [*self._sampling, sending, loading]
        for loop in self._loops:
            loop.start()

    def exchange(self, orders: Orders) -> WorkerState:
        """Take orders; return how the worker is."""
        with self._lock:
            self._orders = orders
            for task in self._tasks:
                task.orders = orders
            self._around.credits.grant(orders.credits)
            self._wake()
            return self._state(is_reporting=orders.is_reporting)

    def update_weights(self, offer: WeightsOffer) -> Version:
        """Hear of a version, to be loaded beside the rollouts; return the newest one known."""
        return self._weights.offer(offer)

    def record(self, order: RecordingOrder) -> None:
        """Refuse to film: there is nothing to see but text, which samples show."""
        update = RecordingUpdate(
            state="failed",
            worker=self._settings.index,
            reason="lessons have no picture; their samples are with the evaluations",
        )
        try:
            self._api.update_recording(order.id, update)
        except RolldeckError as failure:
            self._events.add("recording_failed", str(failure), level="warning")

    def read_log(self, slot: int | None, lines: int) -> LogLines:
        """Return the end of the worker's log."""
        return read_log(self._settings.fleet, worker=self._settings.index, slot=slot, lines=lines)

    def stop(self) -> WorkerState:
        """End all loops and the engine; what was not sent stays in the spool.

        Returns:
            How the worker was in the end.
        """
        for loop in self._loops:
            loop.stop()
        self._closing.set()
        self._sender.close()
        self._weights.close()
        self._wake()
        with self._building:
            worker, self._worker = self._worker, None
        if worker is not None:
            worker.shutdown()
        for loop in self._loops:
            loop.join(CLOSE_SECONDS)
        self._sender.save()
        self._api.close()
        self._log.close()
        with self._lock:
            return self._state(is_reporting=True)

    def _surroundings(self) -> Surroundings:
        settings = self._settings
        worker_id = f"{settings.name}@{settings.incarnation}"
        return Surroundings(
            config=settings.fleet.config,
            worker_id=worker_id,
            supply=TaskSupply(self._curriculum, worker=worker_id),
            curriculum=self._curriculum,
            credits=Credits(),
            outbox=Outbox(self._sender.offer, worker=worker_id),
            has_room=self._sender.has_room,
            active=lambda: self._weights.active,
            monitor=self._monitor,
            events=self._events,
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
            try:
                task.turn(worker)
            except InferenceFailed:
                # Its engine draws nothing more: the next turn begins with a new one.
                with self._building:
                    if self._worker is worker:
                        self._worker = None
                worker.shutdown()
                raise

        return turn

    def _built(self) -> GroupRolloutWorker | None:
        """Return the worker, made with the first call; None if it cannot be."""
        with self._building:
            if self._worker is None and not self._refusal and not self._closing.is_set():
                try:
                    self._worker = self._build()
                except MISCONFIGURED as misfit:
                    kind = {
                        CheckpointUnreadable: "checkpoint_unreadable",
                        TokenizerUnusable: "tokenizer_unusable",
                    }.get(type(misfit), "policy_refused")
                    self._events.add(kind, str(misfit), level="error")
                    self._refusal = str(misfit)
                    self._is_hopeless = self._concerns_all(misfit)
            return self._worker

    def _build(self) -> GroupRolloutWorker:
        config = self._settings.fleet.config
        language = config.language
        if language is None:
            raise PolicyDoesNotFit("language", "the run has no lessons")
        self._policy = policy_of(
            language, device=config.fleet.device, rows=BATCHES_IN_FLIGHT * sequences_of(language)
        )
        self._weights.serve(self._policy, draw_with=self._policy.draw_with)
        return GroupRolloutWorker(
            language,
            server=self._policy.server,
            tokenizer=self._policy.tokenizer,
            context_tokens=self._policy.context_tokens,
            curriculum=self._curriculum,
            problem_seed=config.seed,
            events=self._events,
        )

    def _concerns_all(self, misfit: Exception) -> bool:
        """Return whether every other worker would be refused too: not for what a machine lacks."""
        language = self._settings.fleet.config.language
        has_checkpoint = language is not None and bool(language.model.checkpoint)
        return not (has_checkpoint or isinstance(misfit, PolicyDoesNotFit))

    def _adopt(self) -> None:
        """Let a version draw as soon as it is there: what is under way goes on with it."""
        self._weights.adopt()
        self._wake()

    def _wake(self) -> None:
        with self._around.wake:
            self._around.wake.notify_all()

    def _state(self, *, is_reporting: bool) -> WorkerState:
        counted = self._around.counted
        # In the order in which sequences move on: none is missed, at worst it counts twice.
        unspent, sampling = self._around.credits.held()
        waiting = self._waiting_sequences()
        episodes = []
        if is_reporting:
            with counted.lock:
                episodes = counted.statistics.take(time.monotonic())
        return WorkerState(
            report=self._report(is_reporting=is_reporting),
            unspent=unspent,
            outstanding=unspent + sampling + waiting,
            accepted=self._sender.accepted,
            is_drained=not sampling and not self._sender.waiting and not self._is_busy(),
            buffered_steps=sampling,
            episodes=episodes,
            events=self._events.take(),
            is_hopeless=self._is_hopeless,
            refusal=self._weights.refusal,
        )

    def _waiting_sequences(self) -> int:
        """Return sequences that wait for the platform's answer, inherited ones estimated."""
        language = self._settings.fleet.config.language
        return self._sender.waiting * (sequences_of(language) if language else 1)

    def _is_busy(self) -> bool:
        return any(task.is_busy for task in self._tasks)

    def _report(self, *, is_reporting: bool) -> WorkerReport:
        now, counted = time.monotonic(), self._around.counted
        state, reason = self._condition(now)
        shares = self._monitor.shares(now) if is_reporting else {}
        episodes_a_second, tokens_a_second = self._speed(now, is_reporting=is_reporting)
        said = [judge(shares), f"{tokens_a_second:,.0f} tokens/s." if tokens_a_second else ""]
        usage = self._meter.measure({os.getpid()})._asdict() if is_reporting else {}
        if is_reporting:
            self._log.trim()
        return WorkerReport(
            index=self._settings.index,
            incarnation=self._settings.incarnation,
            state=state,
            reason=reason[:2000],
            node=socket.gethostname(),
            pid=os.getpid(),
            announced_step=self._orders.policy_step,
            staged_step=self._in_epoch(self._weights.staged),
            active_step=self._in_epoch(self._weights.active),
            env_steps=counted.episodes,
            env_steps_per_second=episodes_a_second,
            fragments_cut=self._around.outbox.groups,
            fragments_sent=self._postman.sent,
            to_send=self._sender.waiting,
            dropped_steps=self._dropped(),
            stages=self._monitor.timings(now) if is_reporting else {},
            verdict=" ".join(filter(None, said)),
            slots=self._slots(),
            shares=shares,
            transfers=self._weights.transfers,
            **usage,
        )

    def _dropped(self) -> dict[str, int]:
        counted = self._around.counted
        with counted.lock:
            return {**counted.dropped, **self._postman.dropped}

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
        """Return the state of the worker and, where it is not what is wanted, the reason."""
        for loop in self._loops:
            if loop.is_broken:
                return "failed", f"loop {loop.name} gave up: {loop.error}"
        if self._refusal:
            return "failed", self._refusal
        loading = self._weights.busy_seconds(now)
        if loading > self._settings.fleet.config.fleet.weights_timeout_seconds:
            return "failed", f"a version has been loading for {loading:.0f} s"
        if self._worker is None:
            return "starting", self._sampling[0].error
        if self._orders.desired == "paused":
            return "paused", ""
        if self._orders.desired == "draining":
            return "draining", ""
        return "running", self._hindrance()

    def _hindrance(self) -> str:
        active = self._weights.active
        if self._weights.refusal:
            return self._weights.refusal
        if active is None or active[0] != self._orders.epoch:
            return "waiting for the trainer's weights"
        if self._is_busy():
            return ""
        if self._around.supply.reason:
            return f"waiting: {self._around.supply.reason}"
        return "" if self._around.credits.unspent else "waiting for room in the buffer"

    def _in_epoch(self, version: Version | None) -> int:
        return version[1] if version and version[0] == self._orders.epoch else NO_STEP

    def _speed(self, now: float, *, is_reporting: bool) -> tuple[float, float]:
        """Return episodes and tokens per second since the last report."""
        since, episodes_before, tokens_before = self._measured
        counted = self._around.counted
        if is_reporting:
            self._measured = (now, counted.episodes, counted.tokens)
        seconds = max(now - since, 1e-3)
        return (
            max(0.0, (counted.episodes - episodes_before) / seconds),
            max(0.0, (counted.tokens - tokens_before) / seconds),
        )
