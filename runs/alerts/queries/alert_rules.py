"""Read alert rules and the runs that they cover."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from django.db.models import Count, Q, QuerySet

from runs.access.queries import shown_name, token_names
from runs.alerts.models import Alert, AlertRule
from runs.alerts.rules import RULES_AT_MOST, AlertKind
from runs.alerts.schemas import AlertRuleList, AlertRuleRow
from runs.lifecycle.models import Run
from runs.lifecycle.rules import RunStatus
from runs.search.queries import filtered
from web.rules.errors import NotFound

EVALUATED_STATES: Final = (RunStatus.RUNNING, RunStatus.DRAINING)
"""Statuses in which rules are evaluated; a paused run is idle on purpose."""


class RuleNotFound(NotFound):
    """The rule does not exist."""


def runs_of(*, run_id: int | None, run_filter: str, now: datetime) -> QuerySet[Run]:
    """Return the runs that a rule covers, in any status."""
    return Run.objects.filter(pk=run_id) if run_id is not None else filtered(run_filter, now=now)


def watched_runs(rule: AlertRule, *, now: datetime) -> QuerySet[Run]:
    """Return the runs in which a rule is evaluated now."""
    runs = runs_of(run_id=rule.run_id, run_filter=rule.run_filter, now=now)
    return runs.filter(archived_at=None, status__in=EVALUATED_STATES)


def enabled_rules() -> list[AlertRule]:
    """Return the enabled rules."""
    return list(AlertRule.objects.filter(is_enabled=True).order_by("pk")[:RULES_AT_MOST])


def rule_of(rule_id: int) -> AlertRule:
    """Return a rule.

    Raises:
        RuleNotFound: If there is no rule with this id.
    """
    rule = AlertRule.objects.select_related("run").filter(pk=rule_id).first()
    if rule is None:
        raise RuleNotFound(f"alert rule {rule_id} not found")
    return rule


def rule_list() -> AlertRuleList:
    """Return all rules by name, each with its number of firing alerts."""
    rules = list(AlertRule.objects.select_related("run").order_by("name", "pk"))
    return AlertRuleList(results=_rows(rules), next=None, at_most=RULES_AT_MOST)


def rule_row(rule: AlertRule) -> AlertRuleRow:
    """Return one rule for the API."""
    return _rows([rule])[0]


def _rows(rules: list[AlertRule]) -> list[AlertRuleRow]:
    holding = Alert.objects.filter(
        Q(cleared_at=None), kind=AlertKind.RULE, subject__in=[str(rule.pk) for rule in rules]
    )
    firing = dict(holding.order_by().values_list("subject").annotate(Count("pk")))
    names = token_names(one for rule in rules for one in (rule.created_by, rule.changed_by))
    return [_row(rule, firing=firing.get(str(rule.pk), 0), names=names) for rule in rules]


def _row(rule: AlertRule, *, firing: int, names: Mapping[str, str]) -> AlertRuleRow:
    return AlertRuleRow(
        id=rule.pk,
        name=rule.name,
        metric=rule.metric,
        comparator=rule.comparator,  # type: ignore[arg-type]
        threshold=rule.threshold,
        for_seconds=rule.for_seconds,
        severity=rule.severity,  # type: ignore[arg-type]
        runbook=rule.runbook,
        run=rule.run.name if rule.run else None,
        filter=rule.run_filter,
        is_enabled=rule.is_enabled,
        condition=rule.limit.condition,
        created_at=rule.created_at,
        created_by=shown_name(rule.created_by, names),
        changed_at=rule.changed_at,
        changed_by=shown_name(rule.changed_by, names),
        firing=firing,
    )
