"""Shape alerts for pages, machines and webhooks."""

from datetime import datetime
from typing import Any, Literal

from msgspec import Struct

Kind = Literal[
    "run_failed",
    "run_not_starting",
    "run_stalled",
    "training_stalled",
    "stale_drops",
    "fleet_silent",
    "workers_down",
    "lesson_stalled",
    "lesson_regressed",
    "lease_lapsed",
    "batch_quarantined",
    "items_corrupt",
    "ledger_unbalanced",
    "pushes_refused",
    "queue_full",
    "disk_low",
    "rule",
]
Severity = Literal["warning", "error"]
State = Literal["open", "acknowledged", "resolved"]
Change = Literal["raised", "acknowledged", "resolved", "test"]
"""What became of an alert, or that somebody tries the webhook out."""


class AlertRow(Struct, frozen=True, kw_only=True):
    """Something that a person should know of."""

    id: int
    kind: Kind
    title: str
    advice: str
    """What to do about it."""
    severity: Severity
    state: State
    run: str | None
    """Null for what concerns the whole deck."""
    subject: str
    """Which part of the run it is about: a batch, a lesson, or the id of the rule that is broken;
    empty for the run itself."""
    metric: str
    """The one that broke a rule; empty for what is no rule."""
    message: str
    first_seen_at: datetime
    last_seen_at: datetime
    times_seen: int
    """Of a fact: how often it happened; a condition counts once."""
    cleared_at: datetime | None
    """When it did not hold any more; null while it holds."""
    acknowledged_at: datetime | None
    acknowledged_by: str
    acknowledged_reason: str
    resolved_at: datetime | None
    resolved_by: str
    resolved_reason: str
    silenced_until: datetime | None
    """Until then nobody is told of it; null where it is not silenced."""


class AlertSummary(Struct, frozen=True, kw_only=True):
    """How much needs attention, and the newest of it: errors first."""

    errors: int
    """Open alerts of this severity that are not silenced."""
    warnings: int
    acknowledged: int
    """Alerts that somebody is at, of either severity."""
    silenced: int
    """Open alerts that nobody is told of for a while, of either severity."""
    newest: list[AlertRow]


class AlertList(Struct, frozen=True, kw_only=True):
    """A page of alerts, newest first."""

    results: list[AlertRow]
    next_before: int | None
    summary: AlertSummary


class AlertDeliveryRow(Struct, frozen=True, kw_only=True):
    """A change of an alert on its way to one channel."""

    id: int
    change: Change
    target: str
    """Scheme and host of a webhook, the rest of which may be a secret; or ``mailto:`` somebody."""
    state: Literal["waiting", "delivered", "given up"]
    created_at: datetime
    attempts: int
    next_attempt_at: datetime
    last_status: int | None
    last_error: str
    last_took_ms: int | None
    """From the begin of the last attempt to its end."""
    settled_at: datetime | None


class AlertDetail(AlertRow, frozen=True, kw_only=True):
    """An alert with what is known of it, and whom it told."""

    details: dict[str, Any]
    deliveries: list[AlertDeliveryRow]


class AlertMessage(Struct, frozen=True, kw_only=True):
    """What a webhook is told; see docs/howto/alerts.md."""

    change: Change
    at: datetime
    deck: str
    """Address of the deck."""
    text: str
    """All of it in one line, under the name that chat systems read: `&`, `<` and `>` are escaped as
    they want it."""
    url: str
    alert: AlertRow
    """Of a test: one that stands nowhere, under id 0 and resolved."""


class WebhookRow(Struct, frozen=True, kw_only=True):
    """An address that is told of alerts, as far as it may be shown."""

    id: str
    """Tells it from the others, and not what it is."""
    channel: Literal["webhook", "email"]
    target: str
    """Scheme and host of a webhook, the rest of which may be a secret; or ``mailto:`` somebody."""
    is_signed: bool
    """Of a webhook; mail is not signed."""
    least_severity: Severity
    """Of the alerts that it is told of."""
    last_test: AlertDeliveryRow | None
    """The newest sample that somebody sent to it."""


class WebhookList(Struct, frozen=True, kw_only=True):
    """The addresses that are told of alerts, as they are set."""

    results: list[WebhookRow]
