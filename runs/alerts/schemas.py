"""Schemas of the API of alerts, their rules and snoozes."""

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from runs.alerts.rules import (
    AlertKind,
    AlertState,
    Change,
    Comparator,
    DeliveryState,
    RuleAction,
    Severity,
)
from web.http.bodies import Reason
from web.rules.pages import Page

# Schemas of alerts, their deliveries and webhooks.


class AlertRow(Struct, frozen=True, kw_only=True):
    """An alert."""

    id: int
    kind: AlertKind
    title: str
    advice: str
    """Recommended action."""
    severity: Severity
    state: AlertState
    run: str | None
    """Null for alerts of the deployment."""
    run_uid: str | None
    """Immutable id of the run."""
    subject: str
    """Affected part of the run: a batch, a lesson, or the id of the breached rule; empty for the
    run itself."""
    metric: str
    """Metric of the breached rule; empty for other alerts."""
    message: str
    first_seen_at: datetime
    last_seen_at: datetime
    times_seen: int
    """For a fact the number of occurrences; 1 for a condition."""
    cleared_at: datetime | None
    """Time at which the condition ended; null while it holds."""
    acknowledged_at: datetime | None
    acknowledged_by: str
    acknowledged_reason: str
    resolved_at: datetime | None
    resolved_by: str
    resolved_reason: str
    is_snoozed: bool
    snoozed_until: datetime | None
    """End of the snooze; null without one, or until it is ended."""


class AcknowledgeAlert(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Reason of an acknowledgement, and its extent."""

    reason: Reason = ""
    same_kind: bool = False
    """Acknowledge every open alert of the same kind; for an alert of a rule, of the same rule."""


class AlertKindRow(Struct, frozen=True, kw_only=True):
    """A kind of alert, with its default texts and severity."""

    kind: AlertKind
    title: str
    advice: str
    """Recommended action."""
    severity: Severity


class AlertKindList(Page[AlertKindRow], frozen=True, kw_only=True):
    """Every kind of alert."""


class AlertGroup(AlertRow, frozen=True, kw_only=True):
    """The alerts of one kind, or of one rule, in one state: the first of them, and their number."""

    count: int
    """Number of these alerts; 1 where alerts are listed one by one."""
    runs: list[str]
    """Their runs, in the order of the alerts."""


class AlertSummary(Struct, frozen=True, kw_only=True):
    """Counts of alerts that need attention, and the newest of them, errors first."""

    errors: int
    """Open alerts of this severity that are not snoozed."""
    warnings: int
    acknowledged: int
    """Acknowledged alerts of either severity."""
    snoozed: int
    """Snoozed open alerts of either severity."""
    newest: list[AlertRow]
    groups: list[AlertGroup]
    """Open alerts that are not snoozed by kind, errors first: of the first 1,000 alerts."""


class AlertList(Page[AlertGroup], frozen=True, kw_only=True):
    """A page of alerts, newest first."""

    summary: AlertSummary


class AlertDeliveryRow(Struct, frozen=True, kw_only=True):
    """Delivery of an alert's change to one channel."""

    id: int
    change: Change
    target: str
    """Scheme and host of a webhook (the path may be secret), or ``mailto:`` and an address."""
    state: DeliveryState
    created_at: datetime
    attempts: int
    next_attempt_at: datetime
    last_status: int | None
    last_error: str
    last_took_ms: int | None
    """Duration of the last attempt."""
    settled_at: datetime | None


class AlertDetail(AlertRow, frozen=True, kw_only=True):
    """An alert with its details and deliveries."""

    details: dict[str, Any]
    deliveries: list[AlertDeliveryRow]


class AlertMessage(Struct, frozen=True, kw_only=True):
    """Body of a webhook request; see docs/howto/alerts.md."""

    change: Change
    at: datetime
    platform_url: str
    """URL of the deployment."""
    text: str
    """One-line summary, under the key that chat systems read. `&`, `<` and `>` are escaped as
    these require."""
    url: str
    alert: AlertRow
    """For a test: a resolved sample alert with id 0 that is not stored."""


class WebhookRow(Struct, frozen=True, kw_only=True):
    """A notification channel, without secrets."""

    id: str
    """Identifies the channel without revealing its address."""
    channel: Literal["webhook", "email"]
    target: str
    """Scheme and host of a webhook (the path may be secret), or ``mailto:`` and an address."""
    is_signed: bool
    """Applies to webhooks; mail is not signed."""
    least_severity: Severity
    """Minimum severity of delivered alerts."""
    last_test: AlertDeliveryRow | None
    """The newest test delivery."""


class WebhookList(Page[WebhookRow], frozen=True, kw_only=True):
    """Configured notification channels."""


# Schemas of alert rules and snoozes.

RuleId = Annotated[int, Meta(ge=1, le=2**63 - 1)]


class SetAlertRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Complete definition of an alert rule."""

    name: Annotated[str, Meta(min_length=1, max_length=80)]
    metric: Annotated[str, Meta(min_length=1, max_length=120, pattern=r"^[\w./* -]+$")]
    """Name of a metric; ``*`` stands for any text, as in ``env/*/solved``."""
    comparator: Comparator
    threshold: float | None = None
    """Null for `not_finite` and `no_data`."""
    for_seconds: Annotated[int, Meta(ge=0, le=86_400)] = 0
    """Time that the breach must last; for `no_data` the time without samples, at least 10."""
    severity: Severity = Severity.WARNING
    action: RuleAction = RuleAction.NOTIFY
    runbook: Annotated[str, Meta(max_length=4000)] = ""
    """Instructions shown with the rule's alerts."""
    run: str | None = None
    """The only run that the rule covers; null to select runs by `filter`."""
    filter: Annotated[str, Meta(max_length=500)] = ""
    """Filter in the syntax of the run list; empty for all runs."""
    is_enabled: bool = True
    reason: Reason = ""


class AlertRuleRow(Struct, frozen=True, kw_only=True):
    """A stored alert rule."""

    id: int
    name: str
    metric: str
    comparator: Comparator
    threshold: float | None
    for_seconds: int
    severity: Severity
    action: RuleAction
    runbook: str
    run: str | None
    run_uid: str | None
    """Immutable id of the run."""
    filter: str
    is_enabled: bool
    condition: str
    """The condition that breaches the rule: ``above 5 for 10 min``."""
    created_at: datetime
    created_by: str
    changed_at: datetime
    changed_by: str
    firing: int
    """Number of its alerts whose condition holds."""


class AlertRuleList(Page[AlertRuleRow], frozen=True, kw_only=True):
    """All alert rules, by name."""

    at_most: int
    """Maximum number of rules per deployment."""


class NewSnooze(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An alert or a rule to snooze, the end and the reason."""

    alert: Annotated[int, Meta(ge=1, le=(1 << 63) - 1)] | None = None
    rule: RuleId | None = None
    """For all alerts of a rule, in place of `alert`."""
    until: datetime | None = None
    """At most 30 days ahead; null until the snooze is ended."""
    reason: Annotated[str, Meta(min_length=1, max_length=2000)]


class SnoozeRow(Struct, frozen=True, kw_only=True):
    """A snooze: an alert or a rule without notifications."""

    id: int
    kind: AlertKind
    title: str
    """Name of the rule, or title of the kind."""
    message: str
    """Message of the snoozed alert."""
    alert: int | None
    """The snoozed alert; null for a rule, and for an alert that was deleted since."""
    rule: int | None
    """The snoozed rule; null for an alert."""
    run: str | None
    run_uid: str | None
    """Immutable id of the run."""
    until: datetime | None
    """Null until the snooze is ended."""
    reason: str
    created_at: datetime
    created_by: str


class SnoozeList(Page[SnoozeRow], frozen=True, kw_only=True):
    """All snoozes that apply, those that end last first."""
