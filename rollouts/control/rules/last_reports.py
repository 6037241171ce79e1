"""Fleet state as proven by recent reports.

A report proves a fleet's state for some seconds. The launch of another manager proves nothing until
it has reported. Until then the state is ``unknown``, as old as the last report of any manager.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

UNKNOWN_AFTER: Final = timedelta(seconds=5)
"""Silence after which the last report no longer proves the present state."""
STARTS_WITHIN: Final = timedelta(seconds=45)
"""Time from the first manager's launch within which it must report."""
_SETTLED: Final = frozenset({"stopped", "failed"})


@dataclass(frozen=True, slots=True, kw_only=True)
class LastReports:
    """Last reports of a fleet."""

    observed: str
    """State last reported by the manager; ``none`` before the first report."""
    has_manager: bool
    """Whether a manager was launched and has not ended, so reports are expected."""
    reported_at: datetime | None
    """Time of the last report of this manager."""
    heard_at: datetime | None
    """Time of the last report of any manager since the run was started."""
    launched_at: datetime | None

    @property
    def confirmed_at(self) -> datetime | None:
        """Time of the state's proof; None if no reports are expected, so none is needed."""
        if not self.has_manager or self.observed in _SETTLED:
            return None
        return self.heard_at or self.launched_at

    def state(self, *, now: datetime) -> str:
        """Return the proven state at `now`."""
        if self.confirmed_at is None:
            return self.observed
        if self.reported_at is not None:
            return "unknown" if now - self.reported_at > UNKNOWN_AFTER else self.observed
        is_first = self.heard_at is None
        return "starting" if is_first and now - self.confirmed_at <= STARTS_WITHIN else "unknown"

    def doubt(self, *, now: datetime) -> str:
        """Return why the state is unknown; empty if it is proven."""
        if self.state(now=now) != "unknown":
            return ""
        if self.reported_at is not None:
            return "its manager does not report"
        if self.heard_at is not None:
            return "its manager stopped reporting; another was launched and has not reported yet"
        return "its manager was launched and has not reported yet"
