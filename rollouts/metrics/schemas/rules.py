"""Shape what a rule would have told, before anybody makes it."""

from datetime import datetime

from msgspec import Struct

from rollouts.metrics.schemas.metrics import MetricLine


class FiredSpell(Struct, frozen=True, kw_only=True):
    """One alert that there would have been."""

    began_at: datetime
    """The first sample beyond the threshold."""
    raised_at: datetime
    """When it had been so for long enough."""
    ended_at: datetime | None
    """The first sample within it again; null: it lasts."""


class PreviewedRun(Struct, frozen=True, kw_only=True):
    """What a rule would have told of one run."""

    run: str
    is_watched: bool
    """Whether it is in a state in which rules are watched: running or draining."""
    began_at: datetime
    ended_at: datetime
    """Now, or the last sample of a run that is not watched."""
    line: MetricLine
    """Over seconds since 1970."""
    accuracy_seconds: float
    """How exact the spells are; 0: to the sample."""
    fired: list[FiredSpell]
    """Oldest first."""


class RulePreview(Struct, frozen=True, kw_only=True):
    """What a rule would have told."""

    words: str
    """What breaks it: ``above 5 for 10 min``."""
    runs: int
    """That it is about, in whatever state."""
    measured: int
    """Of these, how many have such a metric."""
    results: list[PreviewedRun]
    """The newest of them."""
