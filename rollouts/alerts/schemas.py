"""Schemas of the alert rule backtest."""

from datetime import datetime

from msgspec import Struct

from rollouts.metrics.schemas import MetricLine
from web.rules.pages import Page


class FiredPeriod(Struct, frozen=True, kw_only=True):
    """One alert that the rule would have fired."""

    began_at: datetime
    """Time of the first sample beyond the threshold."""
    raised_at: datetime
    """Time at which the required duration was reached."""
    ended_at: datetime | None
    """Time of the first sample within the threshold again; null while it lasts."""


class PreviewedRun(Struct, frozen=True, kw_only=True):
    """Backtest of a rule on one run."""

    run: str
    is_watched: bool
    """Whether rules are evaluated in its state: running or draining."""
    began_at: datetime
    ended_at: datetime
    """Present time, or the last sample of a run without evaluation."""
    line: MetricLine
    """Line over seconds since 1970."""
    accuracy_seconds: float
    """Resolution of the breaches in seconds; 0: exact to the sample."""
    fired: list[FiredPeriod]
    """Oldest first."""


class RulePreview(Page[PreviewedRun], frozen=True, kw_only=True):
    """Result of a rule backtest."""

    condition: str
    """Condition of a breach: ``above 5 for 10 min``."""
    runs: int
    """Number of runs to which the rule applies, in any state."""
    measured: int
    """Number of these runs with the metric."""
