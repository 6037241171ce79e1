"""Raise, clear, acknowledge and resolve alerts; evaluate their conditions.

The platform calls :func:`raise_alert` and :func:`clear`; people call :func:`acknowledge` and
:func:`resolve`.

Alerts reflect the present state of the tables, so no code needs to report a recovery. A failed
evaluation is made up for by the next one. Apps above this one register their conditions in
``AppConfig.ready``.
"""

import json
import logging
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

from django.conf import settings
from django.db import connection, transaction

from runs.alerts.models import Alert, AlertDelivery, AlertSnooze
from runs.alerts.queries.alert_lists import alert_of
from runs.alerts.rules import (
    KINDS,
    SEEN_AT_MOST,
    SUBJECT_LENGTH,
    AlertKind,
    AlertState,
    Condition,
    compare,
)
from runs.alerts.services import webhooks
from runs.events.services import ACTOR_LENGTH, record_event
from runs.lifecycle.queries import RunNotFound
from runs.lifecycle.rules import MoveNotAllowed, RunVerb
from runs.lifecycle.services.lifecycle import change_status
from web.live import announcements
from web.live.announcements import NO_RUN
from web.rules.errors import Conflict

logger = logging.getLogger(__name__)


# Raise, clear, acknowledge and resolve alerts.

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

    A new alert of a condition with a `pause_actor` pauses the run, if its status permits that.
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
        alert = Alert.objects.select_related("run").get(pk=alert_id)
        webhooks.queue_deliveries(alert, "raised", now=now)
        if condition.pause_actor and condition.run_id is not None:
            # A concurrent request may have changed or archived the run.
            with suppress(MoveNotAllowed, RunNotFound):
                change_status(
                    run_id=condition.run_id,
                    verb=RunVerb.PAUSE,
                    actor=condition.pause_actor,
                    reason=condition.message,
                    now=now,
                )
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
def acknowledge(
    *, alert_id: int, actor: str, reason: str = "", same_kind: bool = False, now: datetime
) -> Alert:
    """Acknowledge an alert; the first acknowledgement is kept.

    Args:
        alert_id: The alert.
        actor: Who acknowledges it.
        reason: Reason, recorded with each alert.
        same_kind: Acknowledge every open alert of its kind; for a rule, of the same rule.
        now: Time of the acknowledgement.

    Raises:
        AlertNotFound: If there is no alert with this id.
        AlertResolved: If the alert is resolved.
    """
    alert = alert_of(alert_id, lock=True)
    if alert.state == AlertState.RESOLVED:
        raise AlertResolved(f"alert {alert_id} was resolved at {alert.resolved_at:%H:%M:%S} UTC")
    found = [alert] if alert.state == AlertState.OPEN else []
    if same_kind:
        others = Alert.objects.filter(kind=alert.kind, state=AlertState.OPEN).exclude(pk=alert.pk)
        if alert.kind == AlertKind.RULE:
            others = others.filter(subject=alert.subject)
        found += others.select_for_update(of=("self",)).select_related("run").order_by("pk")
    for each in found:
        each.state = AlertState.ACKNOWLEDGED
        each.acknowledged_at, each.acknowledged_by = now, actor[:ACTOR_LENGTH]
        each.acknowledged_reason = reason
        each.save()
        webhooks.queue_deliveries(each, "acknowledged", now=now)
        _audit(each, "acknowledged", actor=actor, reason=reason, now=now)
    return alert


@transaction.atomic
def resolve(*, alert_id: int, actor: str, reason: str = "", now: datetime) -> Alert:
    """Resolve an alert; it is not raised again while its condition holds.

    Raises:
        AlertNotFound: If there is no alert with this id.
    """
    alert = alert_of(alert_id, lock=True)
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


def _audit(alert: Alert, verb: str, *, actor: str, reason: str, now: datetime) -> None:
    record_event(
        run_id=alert.run_id,
        kind=f"alert_{verb}",
        message=f"{verb} the alert: {alert.message}",
        actor=actor,
        reason=reason,
        details={"alert": alert.pk, "kind": alert.kind, "subject": alert.subject},
        now=now,
    )
    announce(alert.run_id)


def announce(run_id: int | None) -> None:
    """Notify live pages that alerts changed."""
    announcements.announce(run_id or NO_RUN, "alerts")


# Evaluate alert conditions every few seconds; raise new alerts and clear ended ones.

# Limits the writes for alerts whose condition still holds.
REFRESH_AFTER: Final = timedelta(seconds=30)
Evaluator = Callable[[datetime], list[Condition]]

_evaluators: dict[frozenset[AlertKind], Evaluator] = {}


def register(kinds: Collection[AlertKind], evaluate: Evaluator) -> None:
    """Register ``evaluate(now)``, which returns the conditions of `kinds`, at most SEEN_AT_MOST."""
    _evaluators[frozenset(kinds)] = evaluate


@transaction.atomic
def watch(*, now: datetime, only: Collection[AlertKind] | None = None) -> int:
    """Evaluate all conditions once; return the number of alerts raised or cleared.

    A concurrent evaluation does nothing. Alerts whose evaluation fails stay unchanged.

    Args:
        now: Present time.
        only: Kinds to evaluate; None for all.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(hashtext('rolldeck conditions'))")
        if not cursor.fetchone()[0]:
            return 0
    changed = 0
    for kinds, evaluate in _evaluators.items():
        if only is not None and kinds.isdisjoint(only):
            continue
        try:
            with transaction.atomic():
                changed += _update_alerts(kinds, evaluate(now), now=now)
        except Exception:
            logger.exception("evaluation of %s failed", ", ".join(sorted(kinds)))
    webhooks.deliver_held_back(now=now)
    return changed


def _update_alerts(kinds: Collection[AlertKind], found: list[Condition], *, now: datetime) -> int:
    standing = {alert.pk: alert for alert in Alert.objects.filter(kind__in=kinds, cleared_at=None)}
    known = {alert.key: alert.pk for alert in standing.values()}
    seen = compare(known, found)
    for condition in seen.new:
        raise_alert(condition, now=now)
    for alert_id, condition in seen.still.items():
        alert = standing[alert_id]
        changes = {"message": condition.message, "severity": str(condition.weight)}
        is_news = any(getattr(alert, name) != value for name, value in changes.items())
        if is_news or now - alert.last_seen_at >= REFRESH_AFTER:
            details = dict(condition.details)
            rows = Alert.objects.filter(pk=alert_id)
            rows.update(**changes, details=details, last_seen_at=now)
        if is_news:
            announce(alert.run_id)
    # A truncated result omits conditions that may still hold.
    gone = seen.gone if len(found) < SEEN_AT_MOST else []
    clear(gone, now=now)
    return len(seen.new) + len(gone)


# Retention of cleared alerts and their deliveries.

AT_ONCE: Final = 2_000
"""Rows per pass, which bounds the time that locks are held; the next pass continues."""


@transaction.atomic
def delete_old_alerts(*, now: datetime) -> int:
    """Delete alerts older than the retention period; return their number.

    Alerts that are not cleared stay, whether acknowledged, resolved or open. Deliveries are deleted
    with their alert; test deliveries are deleted by their own age, snoozes at their end.
    """
    AlertSnooze.objects.filter(until__lt=now).delete()
    days = settings.ROLLDECK_ALERT_RETENTION_DAYS
    if not days:
        return 0
    before = now - timedelta(days=days)
    samples = AlertDelivery.objects.filter(alert=None, created_at__lt=before)
    AlertDelivery.objects.filter(pk__in=samples.values("pk")[:AT_ONCE]).delete()
    over = Alert.objects.filter(cleared_at__lt=before).order_by("pk").values_list("pk", flat=True)
    gone = list(over[:AT_ONCE])
    AlertDelivery.objects.filter(alert__in=gone).delete()
    return Alert.objects.filter(pk__in=gone, cleared_at__lt=before).delete()[0]
