"""Name what a person should hear of, and compare what is wrong now with what was said of it.

An alert stands for a *condition*: something that is wrong for as long as it is there. Whoever looks
says which conditions hold; those that are new are raised, those that are gone are resolved. A
*fact* is over when it is told: nothing but a person resolves it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

SUBJECT_LENGTH: Final = 200
SEEN_AT_MOST: Final = 1000
"""Conditions that one look returns; so many at once are one trouble."""


class Severity(StrEnum):
    """How much it matters: an error costs data or time now, a warning will if nobody looks."""

    WARNING = "warning"
    ERROR = "error"


class AlertState(StrEnum):
    """What people have done about an alert.

    open → acknowledged → resolved; an open one may be resolved at once.
    """

    OPEN = "open"
    ACKNOWLEDGED = "acknowledged"
    """Somebody has seen it and is at it."""
    RESOLVED = "resolved"


class AlertKind(StrEnum):
    """What may be wrong."""

    RUN_FAILED = "run_failed"
    RUN_NOT_STARTING = "run_not_starting"
    RUN_STALLED = "run_stalled"
    TRAINING_STALLED = "training_stalled"
    STALE_DROPS = "stale_drops"
    FLEET_SILENT = "fleet_silent"
    WORKERS_DOWN = "workers_down"
    LESSON_STALLED = "lesson_stalled"
    LESSON_REGRESSED = "lesson_regressed"
    LEASE_LAPSED = "lease_lapsed"
    BATCH_QUARANTINED = "batch_quarantined"
    ITEMS_CORRUPT = "items_corrupt"
    LEDGER_UNBALANCED = "ledger_unbalanced"
    PUSHES_REFUSED = "pushes_refused"
    QUEUE_FULL = "queue_full"
    DISK_LOW = "disk_low"
    RULE = "rule"
    """A rule that people have made is broken; the alert's subject is the rule's id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KindNote:
    """What is said of every alert of one kind."""

    title: str
    severity: Severity
    advice: str
    """What to do about it."""
    is_fact: bool = False


KINDS: Final[dict[AlertKind, KindNote]] = {
    AlertKind.RUN_FAILED: KindNote(
        title="A run failed",
        severity=Severity.ERROR,
        advice="Read the last lines of its logs; start it again, or archive it.",
    ),
    AlertKind.RUN_NOT_STARTING: KindNote(
        title="A run does not start",
        severity=Severity.WARNING,
        advice="Its fleet page says what the cluster lacks.",
    ),
    AlertKind.RUN_STALLED: KindNote(
        title="Nothing comes in",
        severity=Severity.WARNING,
        advice="Look whether its fleet or its environments still work; pause it if not.",
    ),
    AlertKind.TRAINING_STALLED: KindNote(
        title="Nobody takes batches",
        severity=Severity.WARNING,
        advice="Look whether its trainer lives; its queue page says what waits.",
    ),
    AlertKind.STALE_DROPS: KindNote(
        title="Much data is too old",
        severity=Severity.WARNING,
        advice="Sample less at a time, train faster, or let data be older: max_staleness.",
    ),
    AlertKind.FLEET_SILENT: KindNote(
        title="A fleet is silent",
        severity=Severity.ERROR,
        advice="The platform launches it anew by itself; its logs say what it did last.",
    ),
    AlertKind.WORKERS_DOWN: KindNote(
        title="Workers are down",
        severity=Severity.WARNING,
        advice="They are started again by themselves; the fleet page says why they ended.",
    ),
    AlertKind.LESSON_STALLED: KindNote(
        title="A lesson gets no better",
        severity=Severity.WARNING,
        advice="Read its answers: it may be too hard, or its goal too high for what it can reach.",
    ),
    AlertKind.LESSON_REGRESSED: KindNote(
        title="A lesson got worse",
        severity=Severity.WARNING,
        advice="Compare its evaluations; rehearsal keeps graduated lessons in the draw.",
    ),
    AlertKind.LEASE_LAPSED: KindNote(
        title="A trainer let its batch go",
        severity=Severity.WARNING,
        advice="Its batch waits for the next trainer; a longer lease helps one that is only slow.",
    ),
    AlertKind.BATCH_QUARANTINED: KindNote(
        title="A batch is quarantined",
        severity=Severity.ERROR,
        advice="Look at what it is made of, then queue its items again or discard them.",
    ),
    AlertKind.ITEMS_CORRUPT: KindNote(
        title="Stored bytes are corrupt",
        severity=Severity.ERROR,
        advice="They were dropped, not served. Check the disk under the payloads.",
        is_fact=True,
    ),
    AlertKind.LEDGER_UNBALANCED: KindNote(
        title="A ledger does not balance",
        severity=Severity.ERROR,
        advice="Items were lost or counted twice. Keep the database as it is, and tell its keeper.",
    ),
    AlertKind.PUSHES_REFUSED: KindNote(
        title="Pushes are refused",
        severity=Severity.ERROR,
        advice="Their data is lost. Correct the field that the message names in the environment.",
    ),
    AlertKind.QUEUE_FULL: KindNote(
        title="A queue is full",
        severity=Severity.ERROR,
        advice="Pushes are refused until a trainer takes more, or the limit is raised.",
    ),
    AlertKind.DISK_LOW: KindNote(
        title="The disk is nearly full",
        severity=Severity.ERROR,
        advice="Make room, or keep payloads for a shorter time.",
    ),
    # Each rule has a name, a severity and a text of its own, which take the place of these.
    AlertKind.RULE: KindNote(
        title="A rule is broken",
        severity=Severity.WARNING,
        advice="Look at the metric, and at whoever made the rule.",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """Something that is wrong as of now.

    Its message must not change while nothing else does: ages and rates stay out of it.
    """

    kind: AlertKind
    message: str
    run_id: int | None = None
    subject: str = ""
    """Which part of the run it is about: a batch, a lesson; empty for the run itself."""
    severity: Severity | None = None
    """As its kind has it unless it is said."""
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Return what it shares with every other sight of the same condition."""
        return f"{self.kind}:{self.run_id or 'deck'}:{self.subject[:SUBJECT_LENGTH]}"

    @property
    def weight(self) -> Severity:
        """Return how much it matters."""
        return self.severity or KINDS[self.kind].severity


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What a look has found, beside what was known before it."""

    new: list[Condition]
    still: dict[int, Condition]
    """Conditions that hold on, by the alert that stands for them."""
    gone: list[int]
    """Alerts whose condition does not hold any more."""


def compare(known: Mapping[str, int], found: Iterable[Condition]) -> Comparison:
    """Compare what is known, alerts by the key of their condition, with what was found.

    Every alert is either in `still` or in `gone`, every key that was found in `still` or, once, in
    `new`.
    """
    by_key = {condition.key: condition for condition in found}
    return Comparison(
        new=[condition for key, condition in by_key.items() if key not in known],
        still={known[key]: condition for key, condition in by_key.items() if key in known},
        gone=[alert for key, alert in known.items() if key not in by_key],
    )
