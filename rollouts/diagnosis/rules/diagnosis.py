"""Hold what is said of a run's pace.

There is one judgement, :func:`rollouts.diagnosis.rules.bottleneck.judge`; the API, every page and
the command line show what it returns, so no two of them can say different things of the same facts.
"""

from dataclasses import dataclass, field

from rollouts.diagnosis.rules.flow import Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What holds a run up."""

    sentence: str
    stage: Stage | None = None
    """Null: nothing does, or nobody can tell."""
    proof: list[str] = field(default_factory=list)
    """The numbers behind the sentence, each in a few words."""
    change: str = ""
    """What to do about it; empty where there is nothing to do."""
