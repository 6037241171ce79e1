"""Diagnosis of a run's throughput.

:func:`rollouts.diagnosis.rules.bottleneck.judge` is the only source. The API, every page and
the command line show its result, so they never disagree.
"""

from dataclasses import dataclass, field

from rollouts.diagnosis.rules.flow import Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The bottleneck of a run."""

    summary: str
    stage: Stage | None = None
    """Stage of the bottleneck; None if there is none or it is unknown."""
    evidence: list[str] = field(default_factory=list)
    """Measurements that support the summary, each in a few words."""
    change: str = ""
    """Action to take; empty if there is none."""
