"""Create, change and delete alert rules and silences."""

from datetime import datetime
from typing import Any, Final

from django.db import connection, transaction

from runs.alerts.models import AlertRule, AlertSilence
from runs.alerts.queries.alert_lists import SilenceNotFound, lasting
from runs.alerts.queries.conditions import RuleNotFound, rule_of
from runs.alerts.rules import (
    LONGEST,
    RULES_AT_MOST,
    AlertKind,
    Comparator,
    InvalidRule,
    InvalidSilence,
    Limit,
)
from runs.alerts.schemas import NewSilence, SetAlertRule
from runs.events.services import ACTOR_LENGTH, record_event
from runs.lifecycle.queries import RunNotFound, run_id_named
from runs.lifecycle.services.settings import set_fields
from runs.search.rules import InvalidFilter, parse
from web.live.announcements import NO_RUN, announce
from web.rules.errors import Conflict

# Create, change and delete alert rules.

_LOCK: Final = "SELECT pg_advisory_xact_lock(hashtext('rolldeck.alert rules'))"
_PARTS: Final = (
    *("name", "metric", "comparator", "threshold", "for_seconds", "severity", "runbook"),
    *("run_id", "run_filter", "is_enabled"),
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
    """Delete a rule and its silences; the next evaluation clears its alerts.

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
    record_event(
        run_id=rule.run_id,
        kind=f"alert_rule_{verb}",
        message=summary,
        actor=actor,
        reason=reason,
        details={"rule": rule.pk, **details},
        now=now,
    )


# Create and end silences of alerts.


@transaction.atomic
def silence(*, body: NewSilence, actor: str, now: datetime) -> AlertSilence:
    """Silence the alerts of a kind or a rule until a given time; pages still show them.

    Raises:
        InvalidSilence: If the time is past or too late, or the run or rule does not exist.
    """
    if body.until.tzinfo is None:
        raise InvalidSilence("until", "must include an offset, such as 2026-03-01T12:00:00Z")
    if not now < body.until <= now + LONGEST:
        raise InvalidSilence("until", f"must be in the future, within {LONGEST.days} days")
    if body.rule is not None and AlertKind(body.kind) is not AlertKind.RULE:
        raise InvalidSilence("rule", "allowed for silences of the kind `rule` only")
    try:
        run_id = None if body.run is None else run_id_named(body.run)
    except RunNotFound as error:
        raise InvalidSilence("run", str(error)) from error
    try:
        rule = None if body.rule is None else rule_of(body.rule)
    except RuleNotFound as error:
        raise InvalidSilence("rule", str(error)) from error
    made = AlertSilence.objects.create(
        kind=body.kind,
        rule=rule,
        run_id=run_id,
        until=body.until,
        reason=body.reason,
        created_at=now,
        created_by=actor[:ACTOR_LENGTH],
    )
    _audit_silence(made, "made", actor=actor, reason=body.reason, now=now)
    return made


@transaction.atomic
def end_silence(*, silence_id: int, actor: str, reason: str = "", now: datetime) -> AlertSilence:
    """End a silence; alerts that still hold send their notifications.

    Raises:
        SilenceNotFound: If there is no active silence with this id.
    """
    ended = lasting(now=now).filter(pk=silence_id)
    if not ended.update(ended_at=now, ended_by=actor[:ACTOR_LENGTH]):
        raise SilenceNotFound(f"no active silence with id {silence_id}")
    over = AlertSilence.objects.select_related("rule", "run").get(pk=silence_id)
    _audit_silence(over, "ended", actor=actor, reason=reason, now=now)
    return over


def _audit_silence(row: AlertSilence, verb: str, *, actor: str, reason: str, now: datetime) -> None:
    what = f"the rule {row.rule.name}" if row.rule else row.kind
    where = row.run.name if row.run else "all runs"
    record_event(
        run_id=row.run_id,
        kind=f"alert_silence_{verb}",
        message=f"{'created' if verb == 'made' else verb} a silence of {what} in {where} "
        f"until {row.until:%Y-%m-%d %H:%M} UTC",
        actor=actor,
        reason=reason,
        details={"silence": row.pk, "kind": row.kind, "rule": row.rule_id},
        now=now,
    )
    announce(row.run_id or NO_RUN, "alerts")
