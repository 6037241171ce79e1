"""Runtime shared by all kinds of workers.

It consists of the log, the platform client, the weights loader, the spool, the sender, the
supervised loops and the common fields of a report. Each wrapper holds one :class:`WorkerRuntime`.
"""

import os
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final, Literal

from rolldeck import tracing
from rolldeck.operator_requests import LogLines
from rolldeck.wire import WorkerReport
from rollouts.fleet.platform_api import PlatformApi
from rollouts.fleet.process import logs
from rollouts.fleet.process.logs import ActorLog, RingFile, read_log
from rollouts.fleet.process.loops import EventLog, Loop
from rollouts.fleet.process.private_folder import private_folder
from rollouts.fleet.process.settings import FleetSettings, WorkerSettings
from rollouts.fleet.process.spans import PipelineMonitor, time_use
from rollouts.fleet.spool.sender import Push, Sender
from rollouts.fleet.spool.spool_directory import SPOOL_RETENTION_SECONDS, Spool, SpoolDirectory
from rollouts.fleet.weights.loader import WeightsLoader
from rollouts.fleet.weights.records import NO_STEP, Version
from rollouts.fleet.worker.messages import IDLE, WorkerCommand
from rollouts.fleet.worker.node_cleanup import clean_node
from rollouts.fleet.worker.resources import MachineMeter, ResourceMeter

REASON_CHARACTERS: Final = 2000
"""Maximum length of a reason; the platform refuses longer ones."""

Condition = Literal["starting", "running", "paused", "draining", "failed"]


class WorkerRuntime:
    """Runtime of one worker: create it first and call `begin` last.

    Shutdown has three steps, so that a wrapper can release resources that its loops wait for:
    `begin_shutdown`, `wait_for_loops`, `close`. Only `wait_for_loops` waits, for a limited time.
    """

    def __init__(
        self,
        settings: WorkerSettings,
        *,
        owns_process: bool,
        env_processes: int,
        announce_ready: Callable[[], None],
    ) -> None:
        """Clean up after an earlier worker on this node; start no loops.

        Args:
            settings: Settings of the worker.
            owns_process: Whether all log output of the process belongs to this worker.
            env_processes: Number of concurrent env processes.
            announce_ready: Called when a version of the weights is ready to be adopted.
        """
        self.settings = settings
        self.command: WorkerCommand = IDLE
        """Newest command."""
        path = logs.log_of(settings.fleet, worker=settings.index, slot=None)
        self._log = ActorLog(RingFile(path), threads=("" if owns_process else f"{settings.name} ",))
        tracing.begin("rolldeck-worker")
        self.api = PlatformApi(settings.fleet)
        self.events = EventLog()
        if owns_process:
            clean_node(settings, self.events)
        self._spool_directory = _spool_directory_of(settings.fleet, self.events)
        self.monitor = PipelineMonitor(now=time.monotonic(), env_processes=env_processes)
        self._measured_in: tuple[Condition, bool] = ("starting", False)
        """State, and whether weights were loaded, when the monitor was last read."""
        self._meter = ResourceMeter()
        self._machine_meter = MachineMeter(settings.node_id)
        self.weights = WeightsLoader(self.events, announce_ready=announce_ready)
        self._sender: Sender | None = None
        self._loops: dict[str, Loop] = {}

    def sender(self, push: Push) -> Sender:
        """Return a sender that pushes this worker's items and those left by earlier workers."""
        self._sender = Sender(
            push,
            spool=Spool(self._spool_directory.folder / self.settings.incarnation),
            inherit=self._spool_directory.next_orphaned_spool,
            capacity=self.settings.fleet.config.fleet.to_send_queue_size,
            events=self.events,
            monitor=self.monitor,
        )
        return self._sender

    def begin(self, turns: Mapping[str, Callable[[], None]]) -> None:
        """Start one loop per turn, named by its key, and one for the weights."""
        turns = {**turns, "weights": self.weights.turn}
        self._loops = {
            name: Loop(f"{self.settings.name} {name}", turn, self.events)
            for name, turn in turns.items()
        }
        for loop in self._loops.values():
            loop.start()

    def error_of(self, name: str) -> str:
        """Return the last error of the loop with this name."""
        return self._loops[name].error

    def read_log(self, slot: int | None, lines: int) -> LogLines:
        """Return the end of the worker's log, or of the log of the env process that runs `slot`."""
        return read_log(self.settings.fleet, worker=self.settings.index, slot=slot, lines=lines)

    def begin_shutdown(self) -> None:
        """Stop all loops after their current turn, and end the waits that this class knows."""
        for loop in self._loops.values():
            loop.stop()
        if self._sender is not None:
            self._sender.close()
        self.weights.close()

    def wait_for_loops(self, seconds: float) -> None:
        """Wait until all loops have ended, or `seconds` have passed; hung loops are abandoned."""
        deadline = time.monotonic() + seconds
        for loop in self._loops.values():
            loop.join(max(0.0, deadline - time.monotonic()))

    def close(self) -> None:
        """Save unsent items to the spool and release all resources."""
        if self._sender is not None:
            self._sender.save()
        self._machine_meter.close()
        self.api.close()
        self._log.close()

    def failure_reason(self, now: float) -> str:
        """Return why the worker can no longer do its job; empty if it is healthy."""
        for loop in self._loops.values():
            if loop.is_broken:
                return f"loop {loop.name} gave up: {loop.error}"
        loading = self.weights.busy_seconds(now)
        if loading > self.settings.fleet.config.fleet.weights_timeout_seconds:
            return f"a version has been loading for {loading:.0f} s"
        return ""

    def report(
        self,
        condition: tuple[Condition, str],
        *,
        now: float,
        pids: Iterable[int],
        is_reporting: bool,
    ) -> WorkerReport:
        """Return the report fields common to all workers; the wrapper adds its counters.

        Args:
            condition: State, and the reason if it differs from the desired state.
            now: Monotonic seconds.
            pids: Ids of the worker's other processes.
            is_reporting: Whether to measure resource usage and start a new time window.
        """
        state, reason = condition
        shares = self._shares(state, now) if is_reporting else {}
        usage = self._meter.measure({os.getpid(), *pids})._asdict() if is_reporting else {}
        if is_reporting:
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
            to_send=self._sender.waiting if self._sender else 0,
            stages=self.monitor.timings(now) if is_reporting else {},
            shares=shares,
            time_use=time_use(shares),
            transfers=self.weights.transfers,
            machine=self._machine_meter.measure(now) if is_reporting else None,
            **usage,
        )

    def _shares(self, state: Condition, now: float) -> dict[str, float]:
        """Return the monitor's time shares since the worker's situation last changed."""
        situation = state, self._in_epoch(self.weights.active) != NO_STEP
        is_changed, self._measured_in = situation != self._measured_in, situation
        return self.monitor.shares(now, is_changed=is_changed)

    def _in_epoch(self, version: Version | None) -> int:
        return version[1] if version and version[0] == self.command.epoch else NO_STEP


def _spool_directory_of(settings: FleetSettings, events: EventLog) -> SpoolDirectory:
    """Return the run's spool directory on this node, without expired fragments."""
    root = settings.spool_root or private_folder("spool")
    directory = SpoolDirectory(Path(root), settings.run_key or settings.run)
    removed = directory.sweep(time.time())
    if removed:
        events.add(
            "spool_swept",
            f"Removed {removed} spooled fragments that were not sent within"
            f" {SPOOL_RETENTION_SECONDS / 3600:.0f} h",
            fragments=removed,
        )
    return directory
