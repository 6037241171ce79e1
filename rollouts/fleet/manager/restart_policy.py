"""Restart policy of a worker."""

from typing import Final

from rollouts.fleet.process.loops import RestartBudget, RestartRule
from rollouts.fleet.worker.messages import WorkerState

RESPAWN_RULE: Final = RestartRule(
    most_crashes=10, window_seconds=300.0, first_seconds=0.2, most_seconds=20.0
)
HANG_RULE: Final = RestartRule(
    most_crashes=3, window_seconds=86_400.0, first_seconds=0.2, most_seconds=20.0
)
"""Limit on hangs of the policy, which are detected too slowly for the limit on crashes."""


class RestartPolicy:
    """Time of the next incarnation of a worker, or the decision not to start one."""

    def __init__(self) -> None:
        """Start the first incarnation at once."""
        self._budget = RestartBudget(RESPAWN_RULE)
        self._hangs = RestartBudget(HANG_RULE)
        self._spawn_at: float | None = 0.0
        self.is_given_up = False
        """Whether the worker crashed too often or cannot succeed, and is not restarted."""
        self.cannot_recover = False
        """Whether any successor would fail the same way."""

    @property
    def restarts(self) -> int:
        """Number of restarts so far."""
        return self._budget.total

    def is_due(self, now: float) -> bool:
        """Return whether the next incarnation is due."""
        return self._spawn_at is not None and now >= self._spawn_at

    def cancel(self) -> None:
        """Schedule no further incarnation."""
        self._spawn_at = None

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
        """Schedule the next incarnation after `wait` seconds, or none (None)."""
        self._spawn_at = None if wait is None else now + wait
        self.is_given_up = wait is None

    def replaced(self, now: float) -> None:
        """Schedule a requested restart at once."""
        self._spawn_at = now
        self._budget.total += 1

    def schedule_at_once(self, now: float) -> None:
        """Schedule a start at once; a worker that was given up gets a fresh crash budget."""
        if self.is_given_up:
            self._budget = RestartBudget(RESPAWN_RULE, total=self._budget.total)
            self._hangs = RestartBudget(HANG_RULE)
            self.is_given_up = self.cannot_recover = False
        self._spawn_at = now
