"""Restart backoff: when a crashed component may start again, and when it must stay down."""

from collections import deque
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartRule:
    """Limit on crashes, and the delay before each restart."""

    most_crashes: int
    """Number of crashes within the window after which there are no more restarts."""
    window_seconds: float
    first_seconds: float
    """Delay after the first crash; each further crash in the window doubles it."""
    most_seconds: float


@dataclass(slots=True)
class RestartBudget:
    """Crash history of one component under one rule."""

    rule: RestartRule
    total: int = 0
    """Total number of crashes."""
    _recent: deque[float] = field(default_factory=deque)

    def crashed(self, now: float) -> float | None:
        """Return the seconds to wait before the next restart; None if there must be none.

        Args:
            now: Seconds of a monotonic clock.
        """
        rule = self.rule
        self.total += 1
        self._recent.append(now)
        while self._recent[0] <= now - rule.window_seconds:
            self._recent.popleft()
        if len(self._recent) >= rule.most_crashes:
            return None
        return min(rule.most_seconds, rule.first_seconds * 2.0 ** (len(self._recent) - 1))
