"""Raise, clear, acknowledge and resolve alerts.

The platform calls :func:`raise_alert` and :func:`clear`; people call :func:`acknowledge` and
:func:`resolve`.
"""

import json
from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

from django.db import connection, transaction

from runs.alerts.models import Alert
from runs.alerts.queries.alerts import AlertNotFound
from runs.alerts.rules import KINDS, SUBJECT_LENGTH, AlertKind, AlertState, Condition
from runs.alerts.services import webhooks
from runs.events.services import ACTOR_LENGTH, record_event
from web.live import announcements
from web.live.announcements import NO_RUN
from web.rules.errors import Conflict

PLATFORM: Final = "platform"
CONDITION_ENDED: Final = "the condition no longer holds"
# One statement, so that concurrent observations create a single alert.
_RAISE: Final = """
    INSERT INTO runs_alert AS a (key, kind, run_id, subject, severity, state, message, details,
        first_seen_at, last_seen_at, times_seen, acknowledged_by, acknowledged_reason,
        resolved_by, resolved_reason)
    VALUES (%(key)s, %(kind)s, %(run)s, %(subject)s, %(severity)s, 'open', %(message)s,
        %(details)s::jsonb, %(now)s, %(now)s, 1, '', '', '', '')
    ON CONFLICT (key) WHERE cleared_at IS NULL DO UPDATE SET
        last_seen_at = excluded.last_seen_at, times_seen = a.times_seen + 1,
        message = excluded.message, details = excluded.details, severity = excluded.severity
    RETURNING id, times_seen"""


class AlertResolved(Conflict):
    """The alert is already resolved."""

    code = "alert_resolved"
    title = "The alert is over"


@transaction.atomic
def raise_alert(condition: Condition, *, now: datetime) -> int:
    """Raise an alert, or count another observation of the existing one; return its id.

    An acknowledged alert stays acknowledged. An alert that a person resolved while its condition
    holds stays resolved.
    """
    values = {
        "key": condition.key,
        "kind": condition.kind,
        "run": condition.run_id,
        "subject": condition.subject[:SUBJECT_LENGTH],
        "severity": condition.weight,
        "message": condition.message,
        "details": json.dumps(dict(condition.details)),
        "now": now,
    }
    with connection.cursor() as cursor:
        cursor.execute(_RAISE, values)
        alert_id, times_seen = cursor.fetchone()
    if times_seen == 1:
        webhooks.queue_deliveries(_alert(alert_id), "raised", now=now)
    announce(condition.run_id)
    return int(alert_id)


@transaction.atomic
def clear(alert_ids: Iterable[int], *, now: datetime) -> int:
    """Resolve alerts whose condition no longer holds; return their number."""
    found = Alert.objects.select_for_update(of=("self",)).select_related("run")
    gone = list(found.filter(pk__in=list(alert_ids), cleared_at=None).order_by("pk"))
    for alert in gone:
        alert.cleared_at = now
        if alert.state != AlertState.RESOLVED:
            _set_resolved(alert, actor=PLATFORM, reason=CONDITION_ENDED, now=now)
        alert.save()
        announce(alert.run_id)
    return len(gone)


@transaction.atomic
def acknowledge(*, alert_id: int, actor: str, reason: str = "", now: datetime) -> Alert:
    """Acknowledge an alert; the first acknowledgement is kept.

    Raises:
        AlertNotFound: If there is no alert with this id.
        AlertResolved: If the alert is resolved.
    """
    alert = _locked(alert_id)
    if alert.state == AlertState.RESOLVED:
        raise AlertResolved(f"alert {alert_id} was resolved at {alert.resolved_at:%H:%M:%S} UTC")
    if alert.state == AlertState.ACKNOWLEDGED:
        return alert
    alert.state = AlertState.ACKNOWLEDGED
    alert.acknowledged_at, alert.acknowledged_by = now, actor[:ACTOR_LENGTH]
    alert.acknowledged_reason = reason
    alert.save()
    webhooks.queue_deliveries(alert, "acknowledged", now=now)
    _audit(alert, "acknowledged", actor=actor, reason=reason, now=now)
    return alert


@transaction.atomic
def resolve(*, alert_id: int, actor: str, reason: str = "", now: datetime) -> Alert:
    """Resolve an alert; it is not raised again while its condition holds.

    Raises:
        AlertNotFound: If there is no alert with this id.
    """
    alert = _locked(alert_id)
    if alert.state == AlertState.RESOLVED:
        return alert
    if KINDS[AlertKind(alert.kind)].is_fact:
        alert.cleared_at = now
    _set_resolved(alert, actor=actor, reason=reason, now=now)
    alert.save()
    _audit(alert, "resolved", actor=actor, reason=reason, now=now)
    return alert


def _set_resolved(alert: Alert, *, actor: str, reason: str, now: datetime) -> None:
    alert.state = AlertState.RESOLVED
    alert.resolved_at, alert.resolved_by = now, actor[:ACTOR_LENGTH]
    alert.resolved_reason = reason
    webhooks.queue_deliveries(alert, "resolved", now=now)


def _alert(alert_id: int) -> Alert:
    return Alert.objects.select_related("run").get(pk=alert_id)


def _locked(alert_id: int) -> Alert:
    found = Alert.objects.select_for_update(of=("self",)).select_related("run")
    alert = found.filter(pk=alert_id).first()
    if alert is None:
        raise AlertNotFound(f"alert {alert_id} not found")
    return alert


def _audit(alert: Alert, verb: str, *, actor: str, reason: str, now: datetime) -> None:
    details: dict[str, Any] = {"alert": alert.pk, "kind": alert.kind, "subject": alert.subject}
    record_event(
        run_id=alert.run_id,
        kind=f"alert_{verb}",
        message=f"{verb} the alert: {alert.message}",
        actor=actor,
        reason=reason,
        details=details,
        now=now,
    )
    announce(alert.run_id)


def announce(run_id: int | None) -> None:
    """Notify live pages that alerts changed."""
    announcements.announce(run_id or NO_RUN, "alerts")
