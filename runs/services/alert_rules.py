"""Make, change and delete the rules that alerts are raised by."""

from datetime import datetime
from typing import Any, Final

from django.db import connection, transaction

from runs.core.alert_rules import RULES_AT_MOST, Comparator, InvalidRule, Limit
from runs.core.run_filter import InvalidFilter, parse
from runs.models import AlertRule
from runs.selectors import RunNotFound, run_id_named
from runs.selectors.alert_rules import RuleNotFound
from runs.services.changed_fields import set_fields
from runs.services.events import ACTOR_LENGTH, record_event
from runs.wire.alert_rules import SetAlertRule

_LOCK: Final = "SELECT pg_advisory_xact_lock(hashtext('rolldeck.alert rules'))"
_PARTS: Final = (
    *("name", "metric", "comparator", "threshold", "for_seconds", "severity", "runbook"),
    *("run_id", "run_filter", "is_enabled"),
)


class TooManyRules(Exception):
    """The deck has as many rules as it looks at."""


@transaction.atomic
def make_rule(*, wanted: SetAlertRule, actor: str, now: datetime) -> AlertRule:
    """Make a rule; it is watched from the next look on.

    Raises:
        InvalidRule: If it cannot be watched as it is.
        TooManyRules: If there are as many as a deck may have.
    """
    values = _checked(wanted)
    with connection.cursor() as cursor:
        cursor.execute(_LOCK)
    if AlertRule.objects.count() >= RULES_AT_MOST:
        raise TooManyRules(f"a deck has {RULES_AT_MOST} rules at most; delete one first")
    who = actor[:ACTOR_LENGTH]
    rule = AlertRule.objects.create(
        **values, created_at=now, created_by=who, changed_at=now, changed_by=who
    )
    _audit(rule, "made", details={"after": values}, actor=actor, reason=wanted.reason, now=now)
    return rule


@transaction.atomic
def change_rule(*, rule_id: int, wanted: SetAlertRule, actor: str, now: datetime) -> AlertRule:
    """Set all of a rule; what it raised by another metric or threshold is looked at anew.

    Raises:
        RuleNotFound: If there is none of this id.
        InvalidRule: If it cannot be watched so.
    """
    values = _checked(wanted)
    rule = _locked(rule_id)
    changed = set_fields(rule, values)
    if not changed:
        return rule
    rule.changed_at, rule.changed_by = now, actor[:ACTOR_LENGTH]
    rule.save()
    verb = "changed"
    if set(changed) == {"is_enabled"}:
        verb = "enabled" if rule.is_enabled else "disabled"
    _audit(rule, verb, details=changed, actor=actor, reason=wanted.reason, now=now)
    return rule


@transaction.atomic
def delete_rule(*, rule_id: int, actor: str, reason: str = "", now: datetime) -> None:
    """Delete a rule and its silences; its alerts are cleared by the next look.

    Raises:
        RuleNotFound: If there is none of this id.
    """
    rule = _locked(rule_id)
    details = {"before": {name: getattr(rule, name) for name in _PARTS}}
    _audit(rule, "deleted", details=details, actor=actor, reason=reason, now=now)
    rule.delete()


def _checked(wanted: SetAlertRule) -> dict[str, Any]:
    """Return the columns of a rule, once it is known that it can be watched."""
    limit = Limit(
        comparator=Comparator(wanted.comparator),
        threshold=wanted.threshold,
        for_seconds=wanted.for_seconds,
    )
    if not wanted.name.strip():
        raise InvalidRule("name", "must not be empty")
    return {
        "name": wanted.name.strip(),
        "metric": wanted.metric,
        "comparator": str(limit.comparator),
        "threshold": limit.threshold,
        "for_seconds": limit.for_seconds,
        "severity": wanted.severity,
        "runbook": wanted.runbook,
        "is_enabled": wanted.is_enabled,
        **scope_of(run=wanted.run, run_filter=wanted.filter),
    }


def scope_of(*, run: str | None, run_filter: str) -> dict[str, Any]:
    """Return which runs are meant, as columns of a rule.

    Raises:
        InvalidRule: If there is no such run, the filter cannot be read, or both are given.
    """
    text = run_filter.strip()
    if run is not None and text:
        raise InvalidRule("filter", "must be empty where a run is named")
    try:
        parse(text)
        return {"run_id": None if run is None else run_id_named(run), "run_filter": text}
    except InvalidFilter as error:
        raise InvalidRule("filter", str(error)) from error
    except RunNotFound as error:
        raise InvalidRule("run", str(error)) from error


def _locked(rule_id: int) -> AlertRule:
    rule = AlertRule.objects.select_for_update(of=("self",)).filter(pk=rule_id).first()
    if rule is None:
        raise RuleNotFound(f"there is no rule {rule_id}")
    return rule


def _audit(
    rule: AlertRule, verb: str, *, details: dict[str, Any], actor: str, reason: str, now: datetime
) -> None:
    said = f"{verb} the alert rule {rule.name}: {rule.metric} {rule.limit.words}"
    record_event(
        run_id=rule.run_id,
        kind=f"alert_rule_{verb}",
        message=said,
        actor=actor,
        reason=reason,
        details={"rule": rule.pk, **details},
        now=now,
    )
