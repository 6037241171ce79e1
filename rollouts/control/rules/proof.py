"""Say what may be claimed of a fleet: only what something proved lately.

A report proves a fleet's state for some seconds. That another manager was launched proves nothing
before it has spoken: until then the state is ``unknown``, as old as the last report of whichever
manager there was.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

UNKNOWN_AFTER: Final = timedelta(seconds=5)
"""Silence after which the last report no longer says what is true now."""
STARTS_WITHIN: Final = timedelta(seconds=45)
"""What a first manager may take from its launch to its first report."""
_SETTLED: Final = frozenset({"stopped", "failed"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """What was last heard of a fleet, and of whom."""

    observed: str
    """As its manager last reported; ``none`` before that."""
    has_manager: bool
    """A manager was launched and not yet ended: somebody ought to report."""
    reported_at: datetime | None
    """Last report of this manager."""
    heard_at: datetime | None
    """Last report of any manager since the run was started."""
    launched_at: datetime | None

    @property
    def proven_at(self) -> datetime | None:
        """What proves the state; None if nothing has to, because nobody ought to report."""
        if not self.has_manager or self.observed in _SETTLED:
            return None
        return self.heard_at or self.launched_at

    def state(self, *, now: datetime) -> str:
        """Return the state that may be claimed at `now`."""
        if self.proven_at is None:
            return self.observed
        if self.reported_at is not None:
            return "unknown" if now - self.reported_at > UNKNOWN_AFTER else self.observed
        is_first = self.heard_at is None
        return "starting" if is_first and now - self.proven_at <= STARTS_WITHIN else "unknown"

    def doubt(self, *, now: datetime) -> str:
        """Return why nothing is claimed; empty where something is."""
        if self.state(now=now) != "unknown":
            return ""
        if self.reported_at is not None:
            return "its manager does not report"
        if self.heard_at is not None:
            return "its manager fell silent; another was launched and has not reported yet"
        return "its manager was launched and has not reported yet"
