"""Alert kinds, conditions, and the comparison of found conditions with known alerts.

An alert represents a *condition*: a problem that exists as long as it is observed. New conditions
raise alerts, conditions that are no longer found resolve them. A *fact* happens once: it has no
duration, so a person must resolve its alert.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

SUBJECT_LENGTH: Final = 200
SEEN_AT_MOST: Final = 1000
"""Maximum number of conditions returned by one check."""


class Severity(StrEnum):
    """Severity of an alert: an error costs data or time now, a warning will if ignored."""

    WARNING = "warning"
    ERROR = "error"


class AlertState(StrEnum):
    """Handling state of an alert.

    open → acknowledged → resolved; an open alert may be resolved directly.
    """

    OPEN = "open"
    ACKNOWLEDGED = "acknowledged"
    """A person has seen the alert and is working on it."""
    RESOLVED = "resolved"


class AlertKind(StrEnum):
    """Kind of an alert."""

    RUN_FAILED = "run_failed"
    RUN_NOT_STARTING = "run_not_starting"
    RUN_STALLED = "run_stalled"
    REGISTRATION_DIFFERS = "registration_differs"
    TRAINING_STALLED = "training_stalled"
    STALE_DROPS = "stale_drops"
    FLEET_SILENT = "fleet_silent"
    WORKERS_DOWN = "workers_down"
    ENVIRONMENTS_FAIL = "environments_fail"
    WEIGHTS_LATE = "weights_late"
    NO_GRADIENT = "no_gradient"
    LESSON_STALLED = "lesson_stalled"
    LESSON_REGRESSED = "lesson_regressed"
    LEASE_LAPSED = "lease_lapsed"
    BATCH_QUARANTINED = "batch_quarantined"
    ITEMS_CORRUPT = "items_corrupt"
    LEDGER_UNBALANCED = "ledger_unbalanced"
    PUSHES_REFUSED = "pushes_refused"
    QUEUE_FULL = "queue_full"
    DISK_LOW = "disk_low"
    JOBS_DOWN = "jobs_down"
    PART_EXITED = "part_exited"
    RULE = "rule"
    """An alert rule is breached; the alert's subject is the rule's id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KindNote:
    """Title, default severity and advice of an alert kind."""

    title: str
    severity: Severity
    advice: str
    """Recommended action."""
    is_fact: bool = False


KINDS: Final[dict[AlertKind, KindNote]] = {
    AlertKind.RUN_FAILED: KindNote(
        title="A run failed",
        severity=Severity.ERROR,
        advice="Read the last lines of its logs; restart or archive it.",
    ),
    AlertKind.RUN_NOT_STARTING: KindNote(
        title="A run does not start",
        severity=Severity.WARNING,
        advice="Its page and `rolldeck why` name the cause; the fleet page shows which resources "
        "the cluster lacks.",
    ),
    AlertKind.RUN_STALLED: KindNote(
        title="No new data",
        severity=Severity.WARNING,
        advice="Check that its fleet or its environments still work; pause it if not.",
    ),
    AlertKind.REGISTRATION_DIFFERS: KindNote(
        title="A trainer registered with other settings",
        severity=Severity.WARNING,
        advice="The run keeps its settings: correct the trainer, or reset the run.",
    ),
    AlertKind.TRAINING_STALLED: KindNote(
        title="No batches leased",
        severity=Severity.WARNING,
        advice="Check that its trainer is running; the queue page shows the queued data.",
    ),
    AlertKind.STALE_DROPS: KindNote(
        title="Much data is dropped",
        severity=Severity.WARNING,
        advice="Stale data: sample less at a time, train faster, or raise max_staleness. The "
        "message names other reasons and their remedies.",
    ),
    AlertKind.FLEET_SILENT: KindNote(
        title="No heartbeats from a fleet",
        severity=Severity.ERROR,
        advice="The platform relaunches it automatically; its logs show its last actions.",
    ),
    AlertKind.WORKERS_DOWN: KindNote(
        title="Workers are down",
        severity=Severity.WARNING,
        advice="They restart automatically; the fleet page shows why they exited.",
    ),
    AlertKind.ENVIRONMENTS_FAIL: KindNote(
        title="Environments fail",
        severity=Severity.WARNING,
        advice="Its page and `rolldeck why` name the errors; fix the environment.",
    ),
    AlertKind.WEIGHTS_LATE: KindNote(
        title="Weights do not arrive",
        severity=Severity.WARNING,
        advice="Publish weights after each train step; Weights shows which worker lacks a version.",
    ),
    AlertKind.NO_GRADIENT: KindNote(
        title="Groups have no gradient",
        severity=Severity.WARNING,
        advice="Choose problems of which some answers succeed, or use a finer reward.",
    ),
    AlertKind.LESSON_STALLED: KindNote(
        title="A lesson does not improve",
        severity=Severity.WARNING,
        advice="Read its answers: it may be too hard, or its goal unreachable.",
    ),
    AlertKind.LESSON_REGRESSED: KindNote(
        title="A lesson got worse",
        severity=Severity.WARNING,
        advice="Compare its evaluations; rehearsal keeps sampling graduated lessons.",
    ),
    AlertKind.LEASE_LAPSED: KindNote(
        title="A lease expired",
        severity=Severity.WARNING,
        advice="The batch waits for the next trainer; a slow trainer needs a longer lease.",
    ),
    AlertKind.BATCH_QUARANTINED: KindNote(
        title="A batch is quarantined",
        severity=Severity.ERROR,
        advice="Inspect its items, then release or discard them.",
    ),
    AlertKind.ITEMS_CORRUPT: KindNote(
        title="Stored bytes are corrupt",
        severity=Severity.ERROR,
        advice="They were dropped, not served. Check the disk that holds the payloads.",
        is_fact=True,
    ),
    AlertKind.LEDGER_UNBALANCED: KindNote(
        title="A ledger does not balance",
        severity=Severity.ERROR,
        advice="Items were lost or counted twice. Do not change the database; contact its admin.",
    ),
    AlertKind.PUSHES_REFUSED: KindNote(
        title="Pushes are refused",
        severity=Severity.ERROR,
        advice="Their data is lost. The message names the error and its remedy.",
    ),
    AlertKind.QUEUE_FULL: KindNote(
        title="A queue is full",
        severity=Severity.ERROR,
        advice="Pushes are refused until a trainer leases batches or the limit is raised.",
    ),
    AlertKind.DISK_LOW: KindNote(
        title="The disk is nearly full",
        severity=Severity.ERROR,
        advice="Free disk space, or shorten the retention of payloads.",
    ),
    AlertKind.JOBS_DOWN: KindNote(
        title="Background jobs do not run",
        severity=Severity.ERROR,
        advice="Start the jobs and the scheduler, or read their logs. Until then runs do not "
        "start, leases do not expire and no other alert is raised.",
    ),
    AlertKind.PART_EXITED: KindNote(
        title="A part of the server exited",
        severity=Severity.WARNING,
        advice="It is restarted automatically; Cluster shows the last lines of its log.",
    ),
    # Each rule has its own name, severity and text, which replace these.
    AlertKind.RULE: KindNote(
        title="An alert rule is breached",
        severity=Severity.WARNING,
        advice="Look at the metric, or ask the author of the rule.",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A problem that exists now.

    The message must stay constant while the problem is unchanged: leave out ages and rates.
    """

    kind: AlertKind
    message: str
    run_id: int | None = None
    subject: str = ""
    """Affected part of the run, such as a batch or a lesson; empty for the run itself."""
    severity: Severity | None = None
    """None for the default of its kind."""
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Return the key that identifies the condition across checks."""
        return f"{self.kind}:{self.run_id or 'server'}:{self.subject[:SUBJECT_LENGTH]}"

    @property
    def weight(self) -> Severity:
        """Return the effective severity."""
        return self.severity or KINDS[self.kind].severity


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Difference between the conditions found now and the alerts known before."""

    new: list[Condition]
    still: dict[int, Condition]
    """Conditions that still hold, by the id of their alert."""
    gone: list[int]
    """Ids of the alerts whose condition no longer holds."""


def compare(known: Mapping[str, int], found: Iterable[Condition]) -> Comparison:
    """Compare known alerts with the conditions found now.

    Every alert is either in `still` or in `gone`. Every found key is in `still` or, once, in `new`.

    Args:
        known: Alert ids by the key of their condition.
        found: Conditions that hold now.
    """
    by_key = {condition.key: condition for condition in found}
    return Comparison(
        new=[condition for key, condition in by_key.items() if key not in known],
        still={known[key]: condition for key, condition in by_key.items() if key in known},
        gone=[alert for key, alert in known.items() if key not in by_key],
    )
