"""Kinds of alerts, rules, snoozes and webhooks, without Django.

Limits of alert rules: a comparison with a threshold, and its minimum duration.

A number holds from its sample until the next one. Non-finite samples breach only the comparator
`not_finite`. The comparator `no_data` is breached by missing samples.

Alert kinds, conditions, and the comparison of found conditions with known alerts.

An alert represents a *condition*: a problem that exists as long as it is observed. New conditions
raise alerts, conditions that are no longer found resolve them. A *fact* happens once: it has no
duration, so a person must resolve its alert.
"""

import hashlib
import hmac
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from web.rules.errors import InvalidField

RULES_AT_MOST: Final = 100
"""Maximum per deployment: each rule is evaluated every few seconds."""
LONGEST_SECONDS: Final = 86_400
SHORTEST_SILENCE_SECONDS: Final = 10
"""Metrics arrive up to tens of seconds apart, so shorter gaps are normal."""


class Comparator(StrEnum):
    """Comparison that breaches a rule."""

    ABOVE = "above"
    AT_LEAST = "at_least"
    BELOW = "below"
    AT_MOST = "at_most"
    NOT_FINITE = "not_finite"
    NO_DATA = "no_data"
    """The metric has stopped arriving."""


UNCOMPARED: Final = frozenset({Comparator.NOT_FINITE, Comparator.NO_DATA})
"""Comparators without a threshold."""


_WORDS: Final = {
    Comparator.ABOVE: "above",
    Comparator.AT_LEAST: "at least",
    Comparator.BELOW: "below",
    Comparator.AT_MOST: "at most",
}


class RuleAction(StrEnum):
    """Effect of a rule when it raises an alert for a run.

    `pause` notifies and pauses the run, unless its alert was already open.
    """

    NOTIFY = "notify"
    PAUSE = "pause"


class InvalidRule(InvalidField):
    """The rule is invalid; `field` names the part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """Comparator, threshold and minimum duration of a rule."""

    comparator: Comparator
    threshold: float | None = None
    """None for `not_finite` and `no_data`."""
    for_seconds: int = 0

    def __post_init__(self) -> None:
        is_compared = self.comparator not in UNCOMPARED
        if is_compared and (self.threshold is None or not math.isfinite(self.threshold)):
            raise InvalidRule("threshold", "must be a finite number")
        if not is_compared and self.threshold is not None:
            raise InvalidRule("threshold", "must be null for this comparator")
        if not 0 <= self.for_seconds <= LONGEST_SECONDS:
            raise InvalidRule("for_seconds", f"must be from 0 to {LONGEST_SECONDS}")
        if self.is_silence and self.for_seconds < SHORTEST_SILENCE_SECONDS:
            least = SHORTEST_SILENCE_SECONDS
            raise InvalidRule("for_seconds", f"must be at least {least} for no_data")

    @property
    def is_silence(self) -> bool:
        """Whether missing samples breach the limit."""
        return self.comparator == Comparator.NO_DATA

    @property
    def condition(self) -> str:
        """Return the limit in words: ``above 5 for 10 min``."""
        if self.is_silence:
            return f"without data for {_span(self.for_seconds)}"
        if self.comparator == Comparator.NOT_FINITE:
            value = "not finite"
        else:
            value = f"{_WORDS[self.comparator]} {self.threshold:g}"
        return f"{value} for {_span(self.for_seconds)}" if self.for_seconds else value

    def is_broken_by(self, value: float) -> bool:
        """Return whether one sample breaches the limit."""
        if self.is_silence:
            return False
        if self.threshold is None:
            return not math.isfinite(value)
        if not math.isfinite(value):
            return False
        return {
            Comparator.ABOVE: value > self.threshold,
            Comparator.AT_LEAST: value >= self.threshold,
            Comparator.BELOW: value < self.threshold,
            Comparator.AT_MOST: value <= self.threshold,
        }[self.comparator]


def _span(seconds: int) -> str:
    for size, unit in ((3600, "h"), (60, "min")):
        if seconds % size == 0:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


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


Change = Literal["raised", "acknowledged", "resolved", "test"]
"""Change of an alert, or a test of a channel."""
DeliveryState = Literal["waiting", "delivered", "given up"]


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
    OUTAGE = "outage"
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
        advice="Its page and `rolldeck run why` name the cause; the fleet page shows which "
        "resources the cluster lacks.",
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
        advice="Its page and `rolldeck run why` name the errors; fix the environment.",
    ),
    AlertKind.OUTAGE: KindNote(
        title="An outage",
        severity=Severity.ERROR,
        advice="Repair the part that the message names. The run or lesson continues when a probe "
        "succeeds, or when a person resumes it.",
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
    pause_actor: str = ""
    """Actor of the pause of the run when the alert is raised; empty for no pause."""

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


# Remedies for refused pushes, by the reason code of the refusal.

_LIMIT: Final = (
    "Send smaller groups or fewer per push, or raise the setting that the message names "
    "(`ROLLDECK_` and its name in capitals)."
)
_LENGTHS: Final = (
    "Correct the field in the environment, or set `lenient` on the run to accept groups with "
    "inconsistent lengths."
)
_NUMBER: Final = "Replace NaN and infinity in the environment before it pushes."
_BODY: Final = "Correct how the environment encodes its requests."
ADVICE: Final[dict[str, str]] = {
    "finite_number": _NUMBER,
    "unknown_environment": (
        "Register the environment in this run, and push with the id of the answer; or set "
        "`lenient` on the run to accept groups of unknown environments."
    ),
    "length_mismatch": _LENGTHS,
    "too_large": _LIMIT,
    "too_long": _LIMIT,
    "json_invalid": _BODY,
    "unknown_encoding": _BODY,
    "invalid": _BODY,
    "too_slow": "Check the network between the environment and the server.",
    "idempotency_conflict": "Use a new `Idempotency-Key` for each push.",
    "run_not_accepting": "Start the run, or push to another one.",
}
"""Reasons without an entry name a field of the group."""
FIELD: Final = "Correct the field that the message names in the environment."


def advice_for(reason: str) -> str:
    """Return the remedy for refusals with a reason code."""
    return ADVICE.get(reason, FIELD)


# Limits of snoozes.

LONGEST: Final = timedelta(days=30)
"""Longest snooze with an end."""


class InvalidSnooze(InvalidField):
    """The snooze is invalid; `field` names the part."""


# Rules for webhook URLs, signatures and retry intervals.

ATTEMPTS: Final = 8
FIRST_WAIT: Final = timedelta(seconds=5)
LONGEST_WAIT: Final = timedelta(hours=1)
_FACTOR: Final = 3
# From RFC 1035.
_LONGEST_HOST, _LONGEST_LABEL = 253, 63
TEST_INTERVAL: Final = timedelta(seconds=10)
"""Minimum interval between two samples of one webhook."""


class InvalidWebhook(ValueError):
    """The URL is not allowed for a webhook."""


def check_url(url: str) -> str:
    """Validate and return the URL of a webhook.

    Raises:
        InvalidWebhook: If it is invalid.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise InvalidWebhook(f"{url!r} is not a URL: {error}") from None
    is_plain = url.isascii() and url.isprintable() and " " not in url
    host = (parts.hostname or "").removesuffix(".")  # of the root
    is_host = len(host) <= _LONGEST_HOST and all(
        0 < len(part) <= _LONGEST_LABEL for part in host.split(".")
    )
    if parts.scheme not in {"http", "https"} or not is_host or port == 0 or not is_plain:
        raise InvalidWebhook(f"{url!r} must be http://… or https://…, in ASCII")
    if parts.username or parts.password:
        raise InvalidWebhook("the URL must not contain a user name; use the signature instead")
    return url


def label(url: str) -> str:
    """Return the displayable part of a URL: the path is often a secret."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def fingerprint(url: str) -> str:
    """Return a hash that distinguishes URLs without revealing them."""
    return hashlib.sha256(url.encode()).hexdigest()[:16]


def signature(secret: str, body: bytes, *, at_seconds: int) -> str:
    """Return the signature header, which authenticates sender and time of `body`.

    ``t=<seconds>,v1=<hex>``: HMAC-SHA256 over the seconds since 1970, a dot and the body. Without a
    secret the header contains only the time.
    """
    timestamp = f"t={at_seconds}"
    if not secret:
        return timestamp
    signed = hmac.new(secret.encode(), f"{at_seconds}.".encode() + body, hashlib.sha256)
    return f"{timestamp},v1={signed.hexdigest()}"


def chat_text(text: str) -> str:
    """Escape text for chat systems, where `<…>` is a link or a mention."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def wait_after(attempts: int) -> timedelta | None:
    """Return the wait after this many failed attempts; None to give up."""
    if attempts >= ATTEMPTS:
        return None
    factor: int = _FACTOR ** max(attempts - 1, 0)
    return min(FIRST_WAIT * factor, LONGEST_WAIT)
