"""Lifecycle of one worker of a fleet: when incarnations start, drain, restart and end."""

from typing import Final

from rolldeck.operator_requests import CordonCommand, MachineCommand
from rollouts.fleet.process.loops import EventLog, RestartBudget, RestartRule
from rollouts.fleet.worker.messages import WorkerState

RESPAWN_RULE: Final = RestartRule(
    most_crashes=10, window_seconds=300.0, first_seconds=0.2, most_seconds=20.0
)
HANG_RULE: Final = RestartRule(
    most_crashes=3, window_seconds=86_400.0, first_seconds=0.2, most_seconds=20.0
)
"""Limit on hangs of the policy, which are detected too slowly for the limit on crashes."""
GIVEN_UP_SECONDS: Final = RESPAWN_RULE.window_seconds
"""Time after which a worker that crashed too often starts again."""
DRAIN_SECONDS: Final = 300.0
"""Time a cordoned worker has to finish its items; the rest counts as lost."""
LEAVE_SECONDS: Final = 60.0
"""Time a leaving worker has to send its fragments; others send the rest later."""
_CORDONED: Final = "it was cordoned"


class WorkerLifecycle:
    """Decisions about the incarnations of one worker; the supervisor carries them out.

    A cordon applies to the index through all incarnations: the current worker drains and ends,
    and no successor starts. A drain is irreversible; if the cordon is lifted during a drain, a
    successor starts once the old worker has ended. A cordon of the machine drains the worker in
    the same way, but lets a successor start on another machine.
    """

    def __init__(self, index: int, events: EventLog) -> None:
        """Start the first incarnation of worker `index` at once; `events` receives cordons."""
        self._index = index
        self._events = events
        self._budget = RestartBudget(RESPAWN_RULE)
        self._hangs = RestartBudget(HANG_RULE)
        self._spawn_at: float | None = 0.0
        self.is_given_up = False
        """Whether the worker crashed too often, or cannot succeed."""
        self.cannot_recover = False
        """Whether any successor would fail the same way."""
        self.leaving_since: float | None = None
        """When the worker was asked to leave the fleet; None if it stays."""
        self.restart_reason: str | None = None
        """Why a restart was requested, if one was."""
        self.cordon_reason: str | None = None
        """Reason of the cordon; None if the worker is not cordoned."""
        self._drains_since: float | None = None
        self.drain_reason = _CORDONED
        """Reason of the drain, as text."""

    @property
    def restarts(self) -> int:
        return self._budget.total

    @property
    def is_cordoned(self) -> bool:
        return self.cordon_reason is not None

    @property
    def is_draining(self) -> bool:
        """Whether the current worker ends as soon as it is empty, because of a cordon."""
        return self._drains_since is not None

    @property
    def drains_because_of_machine(self) -> bool:
        """Whether the current worker drains only because its machine is cordoned."""
        return self.is_draining and self.drain_reason != _CORDONED and not self.is_cordoned

    @property
    def is_leaving(self) -> bool:
        """Whether the worker sends its remaining fragments and then ends."""
        return self.leaving_since is not None

    @property
    def retry_seconds(self) -> float | None:
        """Seconds after which a given-up worker starts again; None for never."""
        return None if self.cannot_recover else GIVEN_UP_SECONDS

    def is_due(self, now: float) -> bool:
        return self._spawn_at is not None and now >= self._spawn_at and not self.is_cordoned

    def is_overdue(self, now: float) -> bool:
        """Return whether the worker has exceeded its time limit for leaving, or for its drain."""
        if self.leaving_since is not None:
            return now - self.leaving_since > LEAVE_SECONDS
        return self._drains_since is not None and now - self._drains_since > DRAIN_SECONDS

    def cancel(self) -> None:
        self._spawn_at = None

    def started(self) -> None:
        self._spawn_at = None
        self.is_given_up = False

    def schedule_at_once(self, now: float) -> None:
        """Schedule a start at once; a worker that was given up gets a fresh crash budget."""
        if self.is_given_up:
            self._budget = RestartBudget(RESPAWN_RULE, total=self._budget.total)
            self._hangs = RestartBudget(HANG_RULE)
            self.is_given_up = self.cannot_recover = False
        self._spawn_at = now

    def failed(self, state: WorkerState, now: float) -> None:
        """Record why a worker reports `failed`; `crashed` follows."""
        self.cannot_recover = state.cannot_recover
        if state.is_policy_hung:
            self.cannot_recover |= self._hangs.crashed(now) is None

    def crashed(self, now: float) -> float | None:
        """Count a crash; return the seconds to wait, or None to give up. See `schedule_after`."""
        wait = self._budget.crashed(now)
        return None if self.cannot_recover else wait

    def schedule_after(self, wait: float | None, now: float) -> None:
        """Schedule the next incarnation after `wait` seconds, or give the worker up (None).

        A given-up worker starts again after a while, unless any successor would fail the same way.
        """
        self.is_given_up = wait is None
        if wait is None:
            wait = self.retry_seconds
        self._spawn_at = None if wait is None else now + wait

    def replaced(self, now: float) -> None:
        """Schedule the successor of a worker that ended on request at once."""
        self.restart_reason = self._drains_since = None
        self.drain_reason = _CORDONED
        self._spawn_at = now
        self._budget.total += 1

    def cordon(self, command: CordonCommand | None, now: float, *, has_worker: bool) -> bool:
        """Apply the requested cordon; return whether the worker has just become cordoned."""
        if command is None:
            self.cordon_reason = None
            return False
        is_news = not self.is_cordoned
        self.cordon_reason = command.reason or "no reason given"
        if has_worker and self._drains_since is None:
            self._drains_since = now
        if is_news:
            text = f"Worker {self._index} is cordoned: {self.cordon_reason}"
            self._events.add("worker_cordoned", text, worker=self._index)
        return is_news

    def leave_machine(self, command: MachineCommand | None, now: float) -> None:
        """Drain the current worker if its machine is cordoned."""
        if command is None or self._drains_since is not None:
            return
        because = f": {command.reason}" if command.reason else ""
        self._drains_since = now
        machine = command.host or command.node[:12]
        self.drain_reason = f"its machine {machine} is cordoned{because}"
        text = f"Worker {self._index} drains: {self.drain_reason}"
        self._events.add("worker_leaves_machine", text, worker=self._index)
