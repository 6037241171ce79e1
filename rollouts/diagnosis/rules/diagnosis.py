"""Causes that harm or limit a run: their kinds, thresholds and common phrases.

:func:`rollouts.diagnosis.rules.causes.diagnose` is the only judgement. The API, every page, the
command line and the alerts show its result, so they never disagree.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from rollouts.diagnosis.rules.flow import AlertText, Facts, Stage
from web.rules.amounts import percent

Kind = Literal[
    # The state of the run explains everything else.
    "not_running",
    "jobs_down",
    "fleet_silent",
    "run_not_starting",
    # Data is lost, or a part is broken.
    "pushes_refused",
    "stale_drops",
    "workers_down",
    "environments_fail",
    "weights_late",
    "no_gradient",
    # A part is missing.
    "run_stalled",
    "training_stalled",
    # Every part works, and one is the slowest.
    "staleness_limit",
    "trainer_slow",
    "delivery_slow",
    "producers_slow",
    "no_bottleneck",
]
"""Kind of a cause. Alerts of runs have the same kinds."""

MOSTLY: Final = 0.5
NOTABLY: Final = 0.3
SELDOM: Final = 0.2
"""Share up to which waiting is ignored, and up to which no part is named as the slowest."""
NEVER: Final = 0.05
"""Share up to which a trainer counts as never waiting."""
MEASURED_AFTER: Final = 10.0
"""Seconds after a change of the status from which the pace is measured."""
LONG_SECONDS: Final = 60.0
"""A trainer that holds a batch longer may hang; newer weights are overdue after this time. Both
limits are twice as long as the run's last step, or interval of versions, if that is longer.
"""
LATE_SECONDS: Final = 30.0
"""Weights that take longer than this to reach a worker count as not delivered, and a fleet that is
silent for longer raises an alert.
"""
START_SECONDS: Final = 180.0
"""A run that starts for longer raises an alert."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """One cause that harms or limits a run."""

    kind: Kind
    summary: str
    stage: Stage | None = None
    """Affected stage; None if there is none or it is unknown."""
    evidence: list[str] = field(default_factory=list)
    """Measurements that support the summary, each in a few words."""
    change: str = ""
    """Action to take; empty if there is none."""
    alerts: Sequence[AlertText] = ()
    """Alerts that are due; empty while the cause is new or harmless."""

    @property
    def key(self) -> str:
        """Return the key by which the next evaluation recognises the cause."""
        return f"{self.kind}:{self.stage or ''}"


def overdue(usual_seconds: float | None) -> float:
    """Return the time after which something is overdue that usually takes `usual_seconds`."""
    return max(LONG_SECONDS, 2 * (usual_seconds or 0.0))


def minutes(seconds: float) -> str:
    """Return a limit in minutes."""
    return f"{max(1, round(seconds / 60))} min"


def alert_if(is_due: bool, message: str) -> list[AlertText]:
    """Return an alert of the run if it is due."""
    return [AlertText(message)] if is_due else []


def versions(count: int) -> str:
    """Return a number of policy versions."""
    return f"{count:,} version{'' if count == 1 else 's'}"


def producers(facts: Facts) -> str:
    """Name the part that produces data."""
    return "environments" if facts.kind == "outside" else "workers"


def limit(facts: Facts) -> str:
    """Name the limit on data that workers produce ahead of the trainer."""
    if facts.max_staleness is None:
        return "the off-policy tolerance"
    return f"the staleness limit (max_staleness {facts.max_staleness:,})"


def limit_setting(facts: Facts) -> str:
    """Name the run setting of that limit."""
    return "off_policy_tolerance" if facts.max_staleness is None else "max_staleness"


def pause(facts: Facts, *, is_held: bool) -> str:
    """Return a summary about the limit that pauses producers, with a leading space.

    A full queue and the staleness limit differ: the latter pauses workers even if the queue is
    empty.
    """
    if facts.is_full:
        return f" The queue is full, so {producers(facts)} pause."
    if is_held and facts.kind != "outside":
        name = limit(facts)
        return f" {name[0].upper()}{name[1:]} pauses workers."
    return ""


def held_back(facts: Facts) -> str:
    """Return the share of time in which the limit pauses workers."""
    return f"{limit(facts)} pauses workers {percent(facts.held_back)} of their time"


def arriving(facts: Facts) -> str:
    """Return the rate of arriving data."""
    if facts.arriving is None:
        return "no data arrived in the last minute"
    return f"{facts.arriving:.3g} {facts.unit} arrive per second"


def queued(facts: Facts) -> str:
    """Return the queued items, and the batch size if it is known."""
    text = f"{facts.queued:,} {facts.unit} are queued"
    return text if facts.batch_size is None else f"{text}, a batch takes {facts.batch_size:,}"


def tracebacks(facts: Facts, kinds: str) -> str:
    """Return the command that prints the tracebacks of the newest events of some kinds."""
    return f"`rolldeck run events {facts.run} --kinds {kinds} --details` prints the tracebacks."


def waiting_batches(facts: Facts) -> list[str]:
    """Return the number of complete queued batches, if any."""
    whole = int(facts.batches_waiting)
    return [f"{whole:,} more {'is' if whole == 1 else 'are'} queued"] if whole else []


def coming(facts: Facts) -> list[str]:
    """Return the numbers of workers that start, and of those that failed."""
    counts = [(facts.workers_coming, "being started"), (facts.workers_down, "failed")]
    return [f"{count:,} {what}" for count, what in counts if count]
