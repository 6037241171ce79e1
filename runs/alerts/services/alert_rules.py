"""Create, change and delete alert rules, and snooze alerts."""

from datetime import datetime
from typing import Any, Final

from django.db import connection, transaction

from runs.alerts.models import AlertRule, AlertSnooze
from runs.alerts.queries.alert_lists import (
    AlertNotFound,
    SnoozeNotFound,
    alert_of,
    lasting,
)
from runs.alerts.queries.conditions import RuleNotFound, rule_of
from runs.alerts.rules import (
    LONGEST,
    RULES_AT_MOST,
    AlertKind,
    Comparator,
    InvalidRule,
    InvalidSnooze,
    Limit,
    RuleAction,
)
from runs.alerts.schemas import NewSnooze, SetAlertRule
from runs.events.services import ACTOR_LENGTH, record_event
from runs.lifecycle.queries import RunNotFound, run_id_named
from runs.lifecycle.services.settings import set_fields
from runs.search.rules import InvalidFilter, parse
from web.live.announcements import NO_RUN, announce
from web.rules.errors import Conflict

# Create, change and delete alert rules.

_LOCK: Final = "SELECT pg_advisory_xact_lock(hashtext('rolldeck.alert rules'))"
_PARTS: Final = (
    *("name", "metric", "comparator", "threshold", "for_seconds", "severity", "action"),
    *("runbook", "run_id", "run_filter", "is_enabled"),
)


class TooManyRules(Conflict):
    """The deployment has reached its limit of alert rules."""

    code = "too_many_rules"
    title = "No room for another rule"


@transaction.atomic
def make_rule(*, body: SetAlertRule, actor: str, now: datetime) -> AlertRule:
    """Create a rule; it takes effect at the next evaluation.

    Raises:
        InvalidRule: If the rule is invalid.
        TooManyRules: If the limit of rules is reached.
    """
    values = _checked(body)
    with connection.cursor() as cursor:
        cursor.execute(_LOCK)
    if AlertRule.objects.count() >= RULES_AT_MOST:
        raise TooManyRules(f"at most {RULES_AT_MOST} alert rules allowed; delete one first")
    who = actor[:ACTOR_LENGTH]
    rule = AlertRule.objects.create(
        **values, created_at=now, created_by=who, changed_at=now, changed_by=who
    )
    _audit(rule, "made", details={"after": values}, actor=actor, reason=body.reason, now=now)
    return rule


@transaction.atomic
def change_rule(*, rule_id: int, body: SetAlertRule, actor: str, now: datetime) -> AlertRule:
    """Replace all fields of a rule; alerts of a changed metric or threshold are re-evaluated.

    Raises:
        RuleNotFound: If there is no rule with this id.
        InvalidRule: If the rule is invalid.
    """
    values = _checked(body)
    rule = rule_of(rule_id, lock=True)
    changed = set_fields(rule, values)
    if not changed:
        return rule
    rule.changed_at, rule.changed_by = now, actor[:ACTOR_LENGTH]
    rule.save()
    verb = "changed"
    if set(changed) == {"is_enabled"}:
        verb = "enabled" if rule.is_enabled else "disabled"
    _audit(rule, verb, details=changed, actor=actor, reason=body.reason, now=now)
    return rule


@transaction.atomic
def delete_rule(*, rule_id: int, actor: str, reason: str = "", now: datetime) -> None:
    """Delete a rule and its snoozes; the next evaluation clears its alerts.

    Raises:
        RuleNotFound: If there is no rule with this id.
    """
    rule = rule_of(rule_id, lock=True)
    details = {"before": {name: getattr(rule, name) for name in _PARTS}}
    _audit(rule, "deleted", details=details, actor=actor, reason=reason, now=now)
    rule.delete()


def _checked(body: SetAlertRule) -> dict[str, Any]:
    """Validate a rule and return its columns."""
    limit = Limit(
        comparator=Comparator(body.comparator),
        threshold=body.threshold,
        for_seconds=body.for_seconds,
    )
    if not body.name.strip():
        raise InvalidRule("name", "must not be empty")
    run_filter = body.filter.strip()
    if body.run is not None and run_filter:
        raise InvalidRule("filter", "must be empty if a run is given")
    try:
        parse(run_filter)
        run_id = None if body.run is None else run_id_named(body.run)
    except InvalidFilter as error:
        raise InvalidRule("filter", str(error)) from error
    except RunNotFound as error:
        raise InvalidRule("run", str(error)) from error
    return {
        "name": body.name.strip(),
        "metric": body.metric,
        "comparator": str(limit.comparator),
        "threshold": limit.threshold,
        "for_seconds": limit.for_seconds,
        "severity": body.severity,
        "action": body.action,
        "runbook": body.runbook,
        "is_enabled": body.is_enabled,
        "run_id": run_id,
        "run_filter": run_filter,
    }


def _audit(
    rule: AlertRule, verb: str, *, details: dict[str, Any], actor: str, reason: str, now: datetime
) -> None:
    done = "created" if verb == "made" else verb
    summary = f"{done} the alert rule {rule.name}: {rule.metric} {rule.limit.condition}"
    if rule.action == RuleAction.PAUSE:
        summary += "; it pauses the run"
    record_event(
        run_id=rule.run_id,
        kind=f"alert_rule_{verb}",
        message=summary,
        actor=actor,
        reason=reason,
        details={"rule": rule.pk, **details},
        now=now,
    )


# Create and end snoozes.


@transaction.atomic
def snooze(*, body: NewSnooze, actor: str, now: datetime) -> AlertSnooze:
    """Suspend the notifications of an alert or a rule; a second snooze replaces the first.

    Raises:
        InvalidSnooze: If the time is past or too late, or the alert or rule does not exist.
    """
    if (body.alert is None) == (body.rule is None):
        raise InvalidSnooze("alert", "give either an alert or a rule")
    if body.until is not None:
        if body.until.tzinfo is None:
            raise InvalidSnooze("until", "must include an offset, such as 2026-03-01T12:00:00Z")
        if not now < body.until <= now + LONGEST:
            raise InvalidSnooze("until", f"must be in the future, within {LONGEST.days} days")
    subject, described = _subject(body)
    made, _ = AlertSnooze.objects.update_or_create(
        **subject,
        defaults={
            **described,
            "until": body.until,
            "reason": body.reason,
            "created_at": now,
            "created_by": actor[:ACTOR_LENGTH],
        },
    )
    _audit_snooze(made, "made", actor=actor, reason=body.reason, now=now)
    return made


def _subject(body: NewSnooze) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the columns that identify a snooze, and those that describe its subject."""
    try:
        if body.rule is not None:
            rule = rule_of(body.rule)
            return {"alert_key": "", "rule": rule}, {"kind": AlertKind.RULE, "run": rule.run}
        alert = alert_of(body.alert or 0)
    except (AlertNotFound, RuleNotFound) as error:
        raise InvalidSnooze("rule" if body.rule else "alert", str(error)) from error
    described: dict[str, Any] = {"kind": alert.kind, "alert": alert, "run": alert.run}
    if alert.kind == AlertKind.RULE:
        described["rule"] = AlertRule.objects.filter(pk=int(alert.subject)).first()
    return {"alert_key": alert.key}, described


@transaction.atomic
def end_snooze(*, snooze_id: int, actor: str, reason: str = "", now: datetime) -> None:
    """End a snooze; alerts that still hold send their notifications.

    Raises:
        SnoozeNotFound: If there is no such snooze, or it is over.
    """
    row = lasting(now=now).select_for_update().filter(pk=snooze_id).first()
    if row is None:
        raise SnoozeNotFound(f"no snooze with id {snooze_id}")
    _audit_snooze(row, "ended", actor=actor, reason=reason, now=now)
    row.delete()


def _audit_snooze(row: AlertSnooze, verb: str, *, actor: str, reason: str, now: datetime) -> None:
    what = f"alert {row.alert_id}" if row.alert_key else f"the rule {row.rule}"
    end = f"until {row.until:%Y-%m-%d %H:%M} UTC" if row.until else "until it is ended"
    record_event(
        run_id=row.run_id,
        kind=f"alert_snooze_{verb}",
        message=f"snoozed {what} {end}" if verb == "made" else f"ended the snooze of {what}",
        actor=actor,
        reason=reason,
        details={"snooze": row.pk, "kind": row.kind, "alert": row.alert_id, "rule": row.rule_id},
        now=now,
    )
    announce(row.run_id or NO_RUN, "alerts")
