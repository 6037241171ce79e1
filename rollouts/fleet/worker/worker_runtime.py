"""What every wrapper has around its worker, whatever the worker computes.

Its log, its way to the platform, weights in, a spool and a sender out, loops that are watched,
and those parts of a report that every kind of worker tells alike. A wrapper holds one
:class:`Coordination` and adds what its own kind of worker needs.
"""

import os
import socket
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final, Literal

from rolldeck.errands import LogLines
from rolldeck.wire import WorkerReport
from rollouts.fleet.manager.node_cleanup import clean_start
from rollouts.fleet.manager.operator_requests import read_log
from rollouts.fleet.manager.resources import ResourceMeter
from rollouts.fleet.spool.platform_api import PlatformApi
from rollouts.fleet.spool.sender import Push, Sender
from rollouts.fleet.spool.spool_directory import KEPT_SECONDS, Estate, Spool
from rollouts.fleet.weights.loader import WeightsLoader
from rollouts.fleet.weights.records import NO_STEP, Version
from rollouts.fleet.worker import log_files
from rollouts.fleet.worker.log_capture import ActorLog
from rollouts.fleet.worker.log_files import RingFile
from rollouts.fleet.worker.loops import EventLog, Loop
from rollouts.fleet.worker.messages import IDLE, Orders
from rollouts.fleet.worker.settings import FleetSettings, WorkerSettings
from rollouts.fleet.worker.spans import PipelineMonitor, time_use

REASON_CHARACTERS: Final = 2000
"""Of what went wrong; a report with more would be refused."""

Condition = Literal["starting", "running", "paused", "draining", "failed"]


class Coordination:
    """Made first, `begin` last: in between a wrapper makes what its loops turn.

    The end goes in steps as well, so that a wrapper can release what its loops wait for:
    `ask_to_end`, `wait_for_loops`, `close`. None of them waits for longer than it is told.
    """

    def __init__(
        self,
        settings: WorkerSettings,
        *,
        owns_process: bool,
        env_processes: int,
        announce_ready: Callable[[], None],
    ) -> None:
        """Clear away what an earlier worker left here; begin nothing.

        Args:
            settings: Of the worker.
            owns_process: Whether whatever the process logs belongs to this worker.
            env_processes: How many work side by side.
            announce_ready: Called when a version of the weights waits to be adopted.
        """
        self.settings = settings
        self.orders: Orders = IDLE
        """The newest."""
        path = log_files.log_of(settings.fleet, worker=settings.index, slot=None)
        self._log = ActorLog(RingFile(path), threads=("" if owns_process else f"{settings.name} ",))
        self.api = PlatformApi(settings.fleet)
        self.events = EventLog()
        if owns_process:
            clean_start(settings, self.events)
        self._estate = _estate_of(settings.fleet, self.events)
        self.monitor = PipelineMonitor(now=time.monotonic(), env_processes=env_processes)
        self._measured_in: tuple[Condition, bool] = ("starting", False)
        """State, and whether it had weights, when the monitor was last read."""
        self._meter = ResourceMeter()
        self.weights = WeightsLoader(self.events, announce_ready=announce_ready)
        self._sender: Sender | None = None
        self._loops: dict[str, Loop] = {}

    def sender(self, push: Push) -> Sender:
        """Return what carries to `push` whatever this worker makes and earlier ones left."""
        self._sender = Sender(
            push,
            spool=Spool(self._estate.folder / self.settings.incarnation),
            inherit=self._estate.next_inheritance,
            capacity=self.settings.fleet.config.fleet.to_send_queue_size,
            events=self.events,
            monitor=self.monitor,
        )
        return self._sender

    def begin(self, turns: Mapping[str, Callable[[], None]]) -> None:
        """Start a loop for each turn by its name, and one for the weights."""
        turns = {**turns, "weights": self.weights.turn}
        self._loops = {
            name: Loop(f"{self.settings.name} {name}", turn, self.events)
            for name, turn in turns.items()
        }
        for loop in self._loops.values():
            loop.start()

    def error_of(self, name: str) -> str:
        """Return what the loop of that name crashed with last."""
        return self._loops[name].error

    def read_log(self, slot: int | None, lines: int) -> LogLines:
        """Return the end of the worker's log, or of the env process that holds `slot`."""
        return read_log(self.settings.fleet, worker=self.settings.index, slot=slot, lines=lines)

    def ask_to_end(self) -> None:
        """Want no further turn, and end the waits that are known here."""
        for loop in self._loops.values():
            loop.stop()
        if self._sender is not None:
            self._sender.close()
        self.weights.close()

    def wait_for_loops(self, seconds: float) -> None:
        """Wait until all turns are over, or the time is: what hangs is left to itself."""
        deadline = time.monotonic() + seconds
        for loop in self._loops.values():
            loop.join(max(0.0, deadline - time.monotonic()))

    def close(self) -> None:
        """Leave what was not sent in the spool, and let go of everything."""
        if self._sender is not None:
            self._sender.save()
        self.api.close()
        self._log.close()

    def trouble(self, now: float) -> str:
        """Return why the worker is of no use any more, as far as it shows here; empty if it is."""
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
        """Return what every worker tells; what it has made is for its wrapper to fill in.

        Args:
            condition: State, and the reason where it is not what is wanted.
            now: Monotonic seconds.
            pids: Of the processes that belong to the worker besides this one.
            is_reporting: Whether to measure; that costs a little, and begins a new window.
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
            announced_step=self.orders.policy_step,
            staged_step=self._in_epoch(self.weights.staged),
            active_step=self._in_epoch(self.weights.active),
            to_send=self._sender.waiting if self._sender else 0,
            stages=self.monitor.timings(now) if is_reporting else {},
            shares=shares,
            time_use=time_use(shares),
            transfers=self.weights.transfers,
            **usage,
        )

    def _shares(self, state: Condition, now: float) -> dict[str, float]:
        """Return the monitor's shares, of the time in the present situation alone."""
        situation = state, self._in_epoch(self.weights.active) != NO_STEP
        is_changed, self._measured_in = situation != self._measured_in, situation
        return self.monitor.shares(now, is_changed=is_changed)

    def _in_epoch(self, version: Version | None) -> int:
        return version[1] if version and version[0] == self.orders.epoch else NO_STEP


def _estate_of(settings: FleetSettings, events: EventLog) -> Estate:
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
