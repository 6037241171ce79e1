"""Decide when a worker that is no more gets a successor."""

from typing import Final

from rollouts.fleet.worker.backoff import RestartBudget, RestartRule

RESPAWN_RULE: Final = RestartRule(
    most_crashes=10, window_seconds=300.0, first_seconds=0.2, most_seconds=20.0
)


class Succession:
    """When the next incarnation of a worker begins, if one does."""

    def __init__(self) -> None:
        """Begin the first one at once."""
        self._budget = RestartBudget(RESPAWN_RULE)
        self._spawn_at: float | None = 0.0
        self.is_given_up = False
        """It crashed in a loop, or was hopeless, and is left alone."""
        self.is_hopeless = False
        """What it last failed of, no successor could do better."""

    @property
    def restarts(self) -> int:
        """Successors so far."""
        return self._budget.total

    def is_due(self, now: float) -> bool:
        """Return whether to begin the next one."""
        return self._spawn_at is not None and now >= self._spawn_at

    def nobody(self) -> None:
        """Begin no other one."""
        self._spawn_at = None

    def crashed(self, now: float) -> float | None:
        """Count a crash; return how many seconds to wait, or None to give up. See `go_on`."""
        wait = self._budget.crashed(now)
        return None if self.is_hopeless else wait

    def go_on(self, wait: float | None, now: float) -> None:
        """Begin the next one so much later, or never."""
        self._spawn_at = None if wait is None else now + wait
        self.is_given_up = wait is None

    def replaced(self, now: float) -> None:
        """Begin the next one now: people wanted another one."""
        self._spawn_at = now
        self._budget.total += 1

    def another_chance(self, now: float) -> None:
        """Begin one now; one that was given up has a new budget of crashes."""
        if self.is_given_up:
            self._budget = RestartBudget(RESPAWN_RULE, total=self._budget.total)
            self.is_given_up = self.is_hopeless = False
        self._spawn_at = now
