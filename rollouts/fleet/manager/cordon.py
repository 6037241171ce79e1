"""Keep one worker of a fleet out until people let it back in."""

from typing import Final

from msgspec.structs import replace

from rolldeck.errands import CordonOrder, MachineOrder
from rolldeck.wire import WorkerReport
from rollouts.fleet.worker.loops import EventLog

DRAIN_SECONDS: Final = 300.0
"""How long a cordoned worker may take to finish what it has begun; the rest counts as lost."""
_UNSAID: Final = "somebody wants it kept out"
_CORDONED: Final = "it was cordoned"


class Cordon:
    """Whether a worker is kept out, and since when the one that is there drains for it.

    A cordon is of the seat, through every incarnation: whoever is there drains and ends, nobody
    takes its place. Draining has no way back; lifted meanwhile, the cordon lets a successor in
    once the old one has ended. A cordon of the machine has the worker drain alike, and lets
    a successor in: elsewhere.
    """

    def __init__(self, index: int, events: EventLog) -> None:
        """Let anybody in; say in `events` when that changes for worker `index`."""
        self._index = index
        self._events = events
        self.reason: str | None = None
        """Why nobody is let in; None: somebody is."""
        self.drains_since: float | None = None
        """Since when the worker that is there drains; None: it does not, or none is there."""
        self.why = _CORDONED
        """Why it drains, in words."""

    @property
    def is_up(self) -> bool:
        """Whether nobody is let in."""
        return self.reason is not None

    @property
    def is_draining(self) -> bool:
        """Whether the worker that is there ends when it has nothing left to do."""
        return self.drains_since is not None

    def heed(self, order: CordonOrder | None, now: float, *, has_worker: bool) -> bool:
        """Go by what people want now; return whether that keeps the worker out from now on."""
        if order is None:
            self.reason = None
            return False
        is_news = self.reason is None
        self.reason = order.reason or _UNSAID
        if has_worker and self.drains_since is None:
            self.drains_since = now
        if is_news:
            text = f"Worker {self._index} is kept out: {self.reason}"
            self._events.add("worker_cordoned", text, worker=self._index)
        return is_news

    def vacate(self, order: MachineOrder | None, now: float) -> None:
        """Have the worker that is there leave its machine, if people want that empty."""
        if order is None or self.drains_since is not None:
            return
        because = f": {order.reason}" if order.reason else ""
        self.drains_since = now
        self.why = f"its machine {order.host or order.node[:12]} is cordoned{because}"
        text = f"Worker {self._index} drains: {self.why}"
        self._events.add("worker_leaves_machine", text, worker=self._index)

    def is_overdue(self, now: float) -> bool:
        """Return whether the worker had the time to finish."""
        return self.drains_since is not None and now - self.drains_since > DRAIN_SECONDS

    def ended(self) -> None:
        """Note that the worker that drained is gone."""
        self.drains_since, self.why = None, _CORDONED

    def on(self, report: WorkerReport, *, has_worker: bool) -> WorkerReport:
        """Return how a worker is with what its cordon makes of it."""
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
            reason=f"kept out: {self.reason}"[:2000],
            slots=[],
        )
