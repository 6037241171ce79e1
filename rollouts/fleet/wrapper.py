"""Coordinate one rollout worker: orders and weights in, fragments and state out."""

import logging
import os
import socket
import tempfile
import threading
import time
from pathlib import Path
from typing import Final, Literal

from rolldeck.errands import LogLines, RecordingOrder
from rolldeck.wire import Fragment, SlotReport, WorkerReport, encode
from rollouts.core.pipeline import PipelineMonitor, judge
from rollouts.fleet import log_files
from rollouts.fleet.clean_start import clean_start
from rollouts.fleet.collector import Collector
from rollouts.fleet.errands import read_log
from rollouts.fleet.log_capture import ActorLog
from rollouts.fleet.log_files import RingFile
from rollouts.fleet.loops import EventLog, Loop
from rollouts.fleet.messages import IDLE, Orders, WorkerState
from rollouts.fleet.platform_api import PlatformApi
from rollouts.fleet.recordings import Recordings
from rollouts.fleet.resources import ResourceMeter, Usage
from rollouts.fleet.sender import Push, Sender
from rollouts.fleet.settings import FleetSettings, WorkerSettings
from rollouts.fleet.spool import KEPT_SECONDS, Estate, Spool
from rollouts.fleet.step_worker import PolicyFactory, StepRolloutWorker
from rollouts.fleet.weights import NO_STEP, Version, WeightsOffer
from rollouts.fleet.weights_loader import WeightsLoader

logger = logging.getLogger(__name__)

CLOSE_SECONDS: Final = 3.0
"""How long a loop may take to end its turn."""
REASON_CHARACTERS: Final = 2000
"""Of what went wrong; a report with more would be refused."""


Condition = Literal["starting", "running", "paused", "draining", "failed"]


class RolloutWorkerWrapper:
    """Holds a :class:`StepRolloutWorker`; every method may be called from any thread.

    Three loops run: rollout, sending and weights. One that crashes is started again and tells so;
    when it crashes in a loop the worker says `failed`, and its manager replaces it.
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
            settings: Of the worker.
            push: Takes fragments in place of the platform.
            policy_factory: Makes another policy than the run's configuration names.
            owns_process: Whether whatever the process logs belongs to this worker.
        """
        self._settings = settings
        log = log_files.log_of(settings.fleet, worker=settings.index, slot=None)
        self._log = ActorLog(RingFile(log), threads=("" if owns_process else f"{settings.name} ",))
        self._api = PlatformApi(settings.fleet)
        self._policy_factory = policy_factory
        self._events = EventLog()
        if owns_process:
            clean_start(settings, self._events)
        estate = estate_of(settings.fleet, self._events)
        fleet = settings.fleet.config.fleet
        self._monitor = PipelineMonitor(
            now=time.monotonic(),
            env_processes=fleet.env_processes,
        )
        self._meter = ResourceMeter()
        self._weights = WeightsLoader(self._events, announce_ready=self._wake)
        self._sender = Sender(
            push or self._api.push,
            spool=Spool(estate.folder / settings.incarnation),
            inherit=estate.next_inheritance,
            capacity=settings.fleet.config.fleet.to_send_queue_size,
            events=self._events,
            monitor=self._monitor,
        )
        self._collector = Collector(
            settings,
            deliver=self._deliver,
            has_room=self._sender.has_room,
            monitor=self._monitor,
        )
        self._recordings = Recordings(
            worker=settings.index, slots=fleet.envs_per_worker, api=self._api
        )
        self._orders = self._obeyed = IDLE
        self._worker: StepRolloutWorker | None = None
        self._measured = (time.monotonic(), 0)
        self._lock = threading.Lock()
        self._rollout = Loop(f"{settings.name} rollout", self._turn, self._events)
        self._sending = Loop(f"{settings.name} sending", self._sender.turn, self._events)
        self._loading = Loop(f"{settings.name} weights", self._weights.turn, self._events)
        self._filming = Loop(f"{settings.name} recordings", self._recordings.turn, self._events)
        self._loops = (self._rollout, self._sending, self._loading, self._filming)
        for loop in self._loops:
            loop.start()

    def exchange(self, orders: Orders) -> WorkerState:
        """Take orders; return how the worker is."""
        with self._lock:
            self._orders = orders
            self._collector.grant(orders.credits)
            self._wake()
            return self._state(is_reporting=orders.is_reporting)

    def update_weights(self, offer: WeightsOffer) -> Version:
        """Hear of a version, to be loaded beside the rollouts; return the newest one known."""
        return self._weights.offer(offer)

    def record(self, order: RecordingOrder) -> None:
        """Have a slot film its next episode."""
        self._recordings.ask(order)
        self._wake()

    def read_log(self, slot: int | None, lines: int) -> LogLines:
        """Return the end of the worker's log, or of the env process that holds `slot`."""
        return read_log(self._settings.fleet, worker=self._settings.index, slot=slot, lines=lines)

    def stop(self) -> WorkerState:
        """End all loops and every environment; what was not sent stays in the spool.

        Returns:
            How the worker was in the end.
        """
        for loop in self._loops:
            loop.stop()
        self._sender.close()
        self._weights.close()
        self._recordings.close()
        self._wake()
        for loop in self._loops:
            loop.join(CLOSE_SECONDS)
        if self._worker is not None:
            self._worker.close()
            self._worker = None
        self._collector.end()
        self._sender.save()
        self._api.close()
        self._log.close()
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
        orders = self._orders
        if orders is not self._obeyed:
            self._obey(worker, orders)
        try:
            worker.turn()
        except Exception:
            # Whatever state it was in, the next turn begins with a new one.
            self._worker = None
            worker.close()
            for slot in range(self._settings.fleet.config.fleet.envs_per_worker):
                self._collector.aborted(slot)
            raise

    def _build(self) -> StepRolloutWorker:
        self._obeyed = IDLE
        worker = StepRolloutWorker(
            self._settings,
            weights=self._weights,
            progress_handler=self._collector,
            monitor=self._monitor,
            events=self._events,
            policy_factory=self._policy_factory,
            recordings=self._recordings,
        )
        worker.is_paused = True
        self._worker = worker
        return worker

    def _obey(self, worker: StepRolloutWorker, orders: Orders) -> None:
        self._collector.set_orders(
            epoch=orders.epoch,
            policy_step=orders.policy_step,
            begins_fragments=orders.desired == "running",
        )
        before = self._obeyed
        if (orders.desired, orders.epoch) != (before.desired, before.epoch):
            logger.info("ordered: %s, epoch %d", orders.desired, orders.epoch)
        if orders.policy_step != before.policy_step:
            logger.info("version %d was announced", orders.policy_step)
        self._collector.forget_the_old()
        worker.epoch = orders.epoch
        worker.is_paused = orders.desired != "running"
        if orders.desired == "draining":
            self._collector.drain()
        self._obeyed = orders

    def _state(self, *, is_reporting: bool) -> WorkerState:
        being_filled, to_send = self._collector.being_filled, self._sender.waiting
        return WorkerState(
            report=self._report(is_reporting=is_reporting),
            unspent=self._collector.unspent,
            outstanding=self._collector.unspent + being_filled + to_send,
            accepted=self._sender.accepted,
            is_drained=not being_filled and not to_send,
            is_hopeless=self._worker is not None and self._worker.is_hopeless,
            refusal=self._weights.refusal,
            buffered_steps=self._collector.buffered_steps,
            episodes=self._collector.take_episodes() if is_reporting else [],
            events=self._events.take(),
        )

    def _report(self, *, is_reporting: bool) -> WorkerReport:
        worker, now = self._worker, time.monotonic()
        state, reason = self._condition(worker)
        staged, active = self._weights.staged, self._weights.active
        slots = worker.reports() if worker else []
        shares = self._monitor.shares(now) if is_reporting else {}
        return WorkerReport(
            index=self._settings.index,
            incarnation=self._settings.incarnation,
            state=state,
            reason=reason[:REASON_CHARACTERS],
            node=socket.gethostname(),
            pid=os.getpid(),
            announced_step=self._orders.policy_step,
            staged_step=self._in_epoch(staged),
            active_step=self._in_epoch(active),
            env_steps=self._collector.env_steps,
            env_steps_per_second=self._speed(now, is_reporting=is_reporting),
            fragments_cut=self._collector.fragments_cut,
            fragments_sent=self._sender.sent,
            to_send=self._sender.waiting,
            dropped_steps=dict(self._collector.dropped_steps),
            stages=self._monitor.timings(now) if is_reporting else {},
            verdict=judge(shares),
            slots=slots,
            shares=shares,
            transfers=self._weights.transfers,
            **(self._usage(slots)._asdict() if is_reporting else {}),
        )

    def _usage(self, slots: list[SlotReport]) -> Usage:
        """Return what this process and the env processes use; keep the log small on the way."""
        self._log.trim()
        return self._meter.measure({os.getpid(), *(slot.pid for slot in slots if slot.pid)})

    def _condition(self, worker: StepRolloutWorker | None) -> tuple[Condition, str]:
        """Return the state of the worker and, where it is not what is wanted, the reason."""
        for loop in self._loops:
            if loop.is_broken:
                return "failed", f"loop {loop.name} gave up: {loop.error}"
        loading = self._weights.busy_seconds(time.monotonic())
        if loading > self._settings.fleet.config.fleet.weights_timeout_seconds:
            return "failed", f"a version has been loading for {loading:.0f} s"
        if worker is None:
            return "starting", self._rollout.error
        if failure := self._failure(worker):
            return "failed", failure
        if self._obeyed.desired == "paused":
            return "paused", ""
        if self._obeyed.desired == "draining":
            return "draining", ""
        return "running", self._hindrance()

    def _failure(self, worker: StepRolloutWorker) -> str:
        """Return why there is nothing to be expected of the worker; empty if there is."""
        hung_after = self._settings.fleet.config.environment.hung_after_seconds
        if worker.hanging_seconds(time.monotonic()) > hung_after:
            return "an environment in the worker's process hangs"
        return worker.refusal or ("every environment slot was given up" if worker.is_broken else "")

    def _hindrance(self) -> str:
        active = self._weights.active
        if active is None or active[0] != self._obeyed.epoch:
            return self._weights.refusal or "waiting for the trainer's weights"
        if self._weights.refusal:
            return self._weights.refusal
        if not self._collector.unspent and not self._collector.being_filled:
            return "waiting for room in the buffer"
        return ""

    def _in_epoch(self, version: tuple[int, int] | None) -> int:
        return version[1] if version and version[0] == self._orders.epoch else NO_STEP

    def _speed(self, now: float, *, is_reporting: bool) -> float:
        """Return env steps per second since the last report."""
        since, before = self._measured
        steps = self._collector.env_steps
        if is_reporting:
            self._measured = (now, steps)
        return max(0.0, (steps - before) / max(now - since, 1e-3))


def estate_of(settings: FleetSettings, events: EventLog) -> Estate:
    """Return what workers of the run left here, without what has waited for too long."""
    root = settings.spool_root or str(Path(tempfile.gettempdir(), "rolldeck-spool"))
    estate = Estate(Path(root), settings.run_key or settings.run)
    removed = estate.sweep(time.time())
    if removed:
        events.add(
            "spool_swept",
            f"Removed {removed} fragments that nobody has sent for {KEPT_SECONDS / 3600:.0f} h",
            fragments=removed,
        )
    return estate
