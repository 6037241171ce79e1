"""Wrapper of a worker: what workers of all kinds share.

That is the log, the platform client, the weights loader, the spool, the sender, the supervised
loops, the commands of the manager and the report. A kind adds the turns of its own loops.
"""

import os
import socket
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Literal

from rolldeck import tracing
from rolldeck.operator_requests import LogLines, RecordingCommand
from rolldeck.wire import WorkerReport
from rollouts.fleet.platform_api import PlatformApi
from rollouts.fleet.process import logs
from rollouts.fleet.process.logs import ActorLog, RingFile, read_log, read_stacks
from rollouts.fleet.process.loops import EventLog, Loop
from rollouts.fleet.process.private_folder import private_folder
from rollouts.fleet.process.settings import WorkerSettings
from rollouts.fleet.process.spans import PipelineMonitor, time_use
from rollouts.fleet.spool.sender import Push, Sender
from rollouts.fleet.spool.spool_directory import SPOOL_RETENTION_SECONDS, Spool, SpoolDirectory
from rollouts.fleet.weights.loader import WeightsLoader
from rollouts.fleet.weights.records import NO_STEP, Version, WeightsOffer
from rollouts.fleet.worker.messages import (
    IDLE,
    WorkerCommand,
    WorkerState,
    obstacle_without_credits,
)
from rollouts.fleet.worker.node_cleanup import clean_node
from rollouts.fleet.worker.resources import MachineMeter, ResourceMeter

REASON_CHARACTERS: Final = 2000
"""Maximum length of a reason; the platform refuses longer ones."""

Condition = Literal["starting", "running", "paused", "draining", "failed"]


class WorkerWrapper(ABC):
    """Wrapper of one worker; thread-safe, no method waits except `stop`, for a limited time.

    A loop that crashes is restarted with an event. When it crashes too often, the worker reports
    `failed` and its manager replaces it.
    """

    close_seconds: float
    """Time limit for all loops to end their turns; loops that hang longer are abandoned."""
    main_loop: str
    """Name of the loop whose error is the reason of a worker that does not start."""

    def __init__(
        self, settings: WorkerSettings, *, owns_process: bool, env_processes: int, push: Push | None
    ) -> None:
        """Clean up after an earlier worker on this node; `begin` starts the loops.

        With `owns_process`, all log output of the process belongs to this worker. `push` receives
        items instead of the platform.
        """
        self.settings = settings
        self.command: WorkerCommand = IDLE
        """Newest command."""
        logs.delete_old_runs(settings.fleet)  # nodes without a manager have logs too
        path = logs.log_of(settings.fleet, worker=settings.index, slot=None)
        self._log = ActorLog(RingFile(path), threads=("" if owns_process else f"{settings.name} ",))
        tracing.begin("rolldeck-worker")
        self.api = PlatformApi(settings.fleet)
        self.events = EventLog()
        if owns_process:
            clean_node(settings, self.events)
        root = settings.fleet.spool_root or private_folder("spool")
        spool_directory = SpoolDirectory(Path(root), settings.fleet.run_key or settings.fleet.run)
        if removed := spool_directory.sweep(time.time()):
            self.events.add(
                "spool_swept",
                f"Removed {removed} spooled fragments that were not sent within"
                f" {SPOOL_RETENTION_SECONDS / 3600:.0f} h",
                fragments=removed,
            )
        self.monitor = PipelineMonitor(now=time.monotonic(), env_processes=env_processes)
        self._measured_in: tuple[Condition, bool] = ("starting", False)
        """State, and whether weights were loaded, when the monitor was last read."""
        self._meter = ResourceMeter()
        self._machine_meter = MachineMeter(settings.node_id)
        self.weights = WeightsLoader(self.events, announce_ready=self.on_weights_ready)
        self.sender = Sender(
            push or self.api.push,
            spool=Spool(spool_directory.folder / settings.incarnation),
            inherit=spool_directory.next_orphaned_spool,
            capacity=settings.fleet.config.fleet.to_send_queue_size,
            events=self.events,
            monitor=self.monitor,
        )
        self._loops: dict[str, Loop] = {}
        self._lock = threading.Lock()
        self._final_state: WorkerState | None = None

    def begin(self, turns: Mapping[str, Callable[[], None]]) -> None:
        """Start one loop per turn, named by its key, and those for sending and for the weights."""
        turns = {**turns, "sending": self.sender.turn, "weights": self.weights.turn}
        self._loops = {
            name: Loop(f"{self.settings.name} {name}", turn, self.events)
            for name, turn in turns.items()
        }
        for loop in self._loops.values():
            loop.start()

    def heartbeat(self, command: WorkerCommand) -> WorkerState:
        """Apply a command and return the worker's state."""
        with self._lock:
            self.command = command
            self.receive(command)
            self.wake()
            return self.state(is_reporting=command.is_reporting)

    def update_weights(self, offer: WeightsOffer) -> Version:
        """Receive a version to load in the background; return the newest version known."""
        return self.weights.offer(offer)

    @abstractmethod
    def record(self, command: RecordingCommand) -> None:
        """Record the next episode of a slot."""

    def read_log(self, slot: int | None, lines: int) -> LogLines:
        """Return the end of the worker's log, or of the log of the env process that runs `slot`."""
        return read_log(self.settings.fleet, worker=self.settings.index, slot=slot, lines=lines)

    def read_stacks(self) -> LogLines:
        """Return the stacks of all threads of the worker's process."""
        return read_stacks()

    def stop(self) -> WorkerState:
        """End the worker and return its final state; unsent items stay in the spool."""
        if self._final_state is not None:
            return self._final_state
        deadline = time.monotonic() + self.close_seconds
        for loop in self._loops.values():
            loop.stop()
        self.sender.close()
        self.weights.close()
        self.end_waits()
        for loop in self._loops.values():
            loop.join(max(0.0, deadline - time.monotonic()))
        self.release()
        self.sender.save()
        self._machine_meter.close()
        self.api.close()
        self._log.close()
        with self._lock:
            self._final_state = self.state(is_reporting=True)
        return self._final_state

    def on_weights_ready(self) -> None:
        """Handle a version of the weights that is ready to be adopted."""
        self.wake()

    @abstractmethod
    def receive(self, command: WorkerCommand) -> None:
        """Store a new command and its credits for the loops."""

    @abstractmethod
    def wake(self) -> None:
        """End the waits of the loops that act."""

    @abstractmethod
    def end_waits(self) -> None:
        """End everything that the loops may wait for; they end with their present turns."""

    @abstractmethod
    def release(self) -> None:
        """Release what the loops used; they have ended, or hang."""

    @abstractmethod
    def state(self, *, is_reporting: bool) -> WorkerState:
        """Return the worker's state; see :class:`WorkerCommand` for `is_reporting`."""

    @property
    @abstractmethod
    def is_started(self) -> bool:
        """Whether the worker can act, or could if it was not for a failure."""

    @abstractmethod
    def failure(self) -> str:
        """Return why the worker can make no progress; empty if it can."""

    def outage(self) -> str:
        """Return which service that the policy needs does not work; empty if all do."""
        return ""

    @abstractmethod
    def obstacle(self) -> str | None:
        """Return why a worker with weights makes no progress; None if it only lacks credits."""

    @property
    def applied(self) -> WorkerCommand:
        """Command that the worker follows; the newest one unless it is applied later."""
        return self.command

    def report(self, *, pids: Iterable[int], is_reporting: bool) -> WorkerReport:
        """Return the report fields of all kinds of workers.

        `pids` are the worker's other processes. With `is_reporting`, resource usage is measured and
        a new time window starts.
        """
        now = time.monotonic()
        state, reason = self._condition(now)
        shares, usage = dict[str, float](), dict[str, Any]()
        if is_reporting:
            # The shares count since the worker's situation last changed.
            situation = state, self._in_epoch(self.weights.active) != NO_STEP
            is_changed, self._measured_in = situation != self._measured_in, situation
            shares = self.monitor.shares(now, is_changed=is_changed)
            usage = self._meter.measure({os.getpid(), *pids})._asdict()
            self._log.trim()
        return WorkerReport(
            last_log=self._log.newest_line() if is_reporting else "",
            index=self.settings.index,
            incarnation=self.settings.incarnation,
            state=state,
            reason=reason[:REASON_CHARACTERS],
            node=socket.gethostname(),
            node_id=self.settings.node_id,
            pid=os.getpid(),
            announced_step=self.command.policy_step,
            staged_step=self._in_epoch(self.weights.staged),
            active_step=self._in_epoch(self.weights.active),
            to_send=self.sender.waiting,
            stages=self.monitor.timings(now) if is_reporting else {},
            shares=shares,
            time_use=time_use(shares),
            transfers=self.weights.transfers,
            machine=self._machine_meter.measure(now) if is_reporting else None,
            **usage,
        )

    def _condition(self, now: float) -> tuple[Condition, str]:
        """Return the state of the worker, and the reason if it differs from the desired state."""
        for loop in self._loops.values():
            if loop.is_broken:
                return "failed", f"loop {loop.name} gave up: {loop.error}"
        loading = self.weights.busy_seconds(now)
        if loading > self.settings.fleet.config.fleet.weights_timeout_seconds:
            return "failed", f"a version has been loading for {loading:.0f} s"
        if trouble := self.failure():
            return "failed", trouble
        if not self.is_started:
            return "starting", self._loops[self.main_loop].error
        command = self.applied
        if command.desired == "paused":
            return "paused", ""
        if command.desired == "draining":
            return "draining", ""
        if self.weights.refusal:
            return "running", self.weights.refusal
        if outage := self.outage():
            return "running", outage
        active = self.weights.active
        if active is None or active[0] != command.epoch:
            return "running", "waiting for the trainer's weights"
        obstacle = self.obstacle()
        if obstacle is None:
            obstacle = obstacle_without_credits(active, command)
        return "running", obstacle

    def _in_epoch(self, version: Version | None) -> int:
        return version[1] if version and version[0] == self.command.epoch else NO_STEP
