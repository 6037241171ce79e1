"""Decide when something that crashed may start again, and when it must be left alone."""

from collections import deque
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartRule:
    """How often something may crash, and how long it waits before the next try."""

    most_crashes: int
    """Crashes within the window that break the loop."""
    window_seconds: float
    first_seconds: float
    """Wait after the first crash; each further one in the window doubles it."""
    most_seconds: float


@dataclass(slots=True)
class RestartBudget:
    """The crashes of one thing, judged by one rule."""

    rule: RestartRule
    total: int = 0
    """Crashes ever."""
    _recent: deque[float] = field(default_factory=deque)

    def crashed(self, now: float) -> float | None:
        """Return the seconds to wait before the next try; None if there shall be none.

        Args:
            now: Seconds of a clock that never goes back.
        """
        rule = self.rule
        self.total += 1
        self._recent.append(now)
        while self._recent[0] <= now - rule.window_seconds:
            self._recent.popleft()
        if len(self._recent) >= rule.most_crashes:
            return None
        return min(rule.most_seconds, rule.first_seconds * 2.0 ** (len(self._recent) - 1))
