"""Cordon one worker of a fleet."""

from typing import Final

from msgspec.structs import replace

from rolldeck.operator_requests import CordonCommand, MachineCommand
from rolldeck.wire import WorkerReport
from rollouts.fleet.process.loops import EventLog

DRAIN_SECONDS: Final = 300.0
"""Time a cordoned worker has to finish its items; the rest counts as lost."""
_UNSAID: Final = "no reason given"
_CORDONED: Final = "it was cordoned"


class Cordon:
    """Cordon of a worker, and the drain of its current incarnation.

    A cordon applies to the index through all incarnations: the current worker drains and ends,
    and no successor starts. A drain is irreversible; if the cordon is lifted during a drain, a
    successor starts once the old worker has ended. A cordon of the machine drains the worker in
    the same way, but lets a successor start on another machine.
    """

    def __init__(self, index: int, events: EventLog) -> None:
        """Start without a cordon; changes for worker `index` are written to `events`."""
        self._index = index
        self._events = events
        self.reason: str | None = None
        """Reason of the cordon; None if the worker is not cordoned."""
        self.drains_since: float | None = None
        """Start of the drain; None if no worker drains."""
        self.why = _CORDONED
        """Reason of the drain, as text."""

    @property
    def is_up(self) -> bool:
        """Whether the worker is cordoned."""
        return self.reason is not None

    @property
    def is_draining(self) -> bool:
        """Whether the current worker ends as soon as it is empty."""
        return self.drains_since is not None

    def apply(self, command: CordonCommand | None, now: float, *, has_worker: bool) -> bool:
        """Apply the requested cordon; return whether the worker has just become cordoned."""
        if command is None:
            self.reason = None
            return False
        is_news = self.reason is None
        self.reason = command.reason or _UNSAID
        if has_worker and self.drains_since is None:
            self.drains_since = now
        if is_news:
            text = f"Worker {self._index} is cordoned: {self.reason}"
            self._events.add("worker_cordoned", text, worker=self._index)
        return is_news

    def vacate(self, command: MachineCommand | None, now: float) -> None:
        """Drain the current worker if its machine is cordoned."""
        if command is None or self.drains_since is not None:
            return
        because = f": {command.reason}" if command.reason else ""
        self.drains_since = now
        self.why = f"its machine {command.host or command.node[:12]} is cordoned{because}"
        text = f"Worker {self._index} drains: {self.why}"
        self._events.add("worker_leaves_machine", text, worker=self._index)

    def is_overdue(self, now: float) -> bool:
        """Return whether the drain has exceeded its time limit."""
        return self.drains_since is not None and now - self.drains_since > DRAIN_SECONDS

    def ended(self) -> None:
        """Mark the drain as finished: the worker has ended."""
        self.drains_since, self.why = None, _CORDONED

    def on(self, report: WorkerReport, *, has_worker: bool) -> WorkerReport:
        """Return a worker's report with the effects of its cordon."""
        if has_worker:
            if self.is_draining and self.why != _CORDONED and not self.is_up:
                return replace(report, reason=self.why[:2000])
            return replace(report, is_cordoned=self.is_up or self.is_draining)
        if not self.is_up:
            return report
        return replace(
            report,
            is_cordoned=True,
            state="stopped",
            reason=f"cordoned: {self.reason}"[:2000],
            slots=[],
        )
