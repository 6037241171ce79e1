"""Queries of alert rules, and of the conditions of runs that raise alerts."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
from django.db.models import Count, Q, QuerySet

from runs.access.queries import shown_name, token_names
from runs.alerts.models import Alert, AlertRule
from runs.alerts.rules import (
    RULES_AT_MOST,
    SEEN_AT_MOST,
    AlertKind,
    Condition,
    RuleAction,
    Severity,
    advice_for,
)
from runs.alerts.schemas import (
    AlertRuleList,
    AlertRuleRow,
)
from runs.lifecycle.models import Environment, Run, RunKind, Trainer
from runs.lifecycle.rules import ACTIVE, RunStatus, describe_differences
from runs.lifecycle.schemas import RefusedPushes
from runs.search.queries.lists import filtered
from web.rules.errors import NotFound

# Read alert rules and the runs that they cover.

EVALUATED_STATES: Final = (RunStatus.RUNNING, RunStatus.DRAINING)
"""Statuses in which rules are evaluated; a paused run is idle on purpose."""


class RuleNotFound(NotFound):
    """The rule does not exist."""


def watched_runs(rule: AlertRule, *, now: datetime) -> QuerySet[Run]:
    """Return the runs in which a rule is evaluated now."""
    runs = filtered(rule.run_filter, now=now)
    if rule.run_id is not None:
        runs = Run.objects.filter(pk=rule.run_id)
    return runs.filter(archived_at=None, status__in=EVALUATED_STATES)


def enabled_rules() -> list[AlertRule]:
    """Return the enabled rules."""
    return list(AlertRule.objects.filter(is_enabled=True).order_by("pk")[:RULES_AT_MOST])


def uncleared_alerts(rule: AlertRule) -> list[Alert]:
    """Return the alerts of a rule whose condition held at the last evaluation, with their runs."""
    found = Alert.objects.filter(kind=AlertKind.RULE, subject=str(rule.pk), cleared_at=None)
    own = ("subject", "severity", "message", "details", "first_seen_at")
    return list(found.select_related("run").only(*own, "run__status").order_by("-pk"))


def rule_of(rule_id: int, *, lock: bool = False) -> AlertRule:
    """Return a rule; `lock` keeps it until the end of the transaction.

    Raises:
        RuleNotFound: If there is no rule with this id.
    """
    found = AlertRule.objects.select_related("run")
    if lock:
        found = found.select_for_update(of=("self",))
    rule = found.filter(pk=rule_id).first()
    if rule is None:
        raise RuleNotFound(f"alert rule {rule_id} not found")
    return rule


def rule_list() -> AlertRuleList:
    """Return all rules by name, each with its number of firing alerts."""
    rules = list(AlertRule.objects.select_related("run").order_by("name", "pk"))
    return AlertRuleList(results=_rule_rows(rules), next=None, at_most=RULES_AT_MOST)


def rule_row(rule: AlertRule) -> AlertRuleRow:
    """Return one rule for the API."""
    return _rule_rows([rule])[0]


def _rule_rows(rules: list[AlertRule]) -> list[AlertRuleRow]:
    holding = Alert.objects.filter(
        Q(cleared_at=None), kind=AlertKind.RULE, subject__in=[str(rule.pk) for rule in rules]
    )
    firing = dict(holding.order_by().values_list("subject").annotate(Count("pk")))
    names = token_names(one for rule in rules for one in (rule.created_by, rule.changed_by))
    return [
        AlertRuleRow(
            id=rule.pk,
            name=rule.name,
            metric=rule.metric,
            comparator=rule.limit.comparator,
            threshold=rule.threshold,
            for_seconds=rule.for_seconds,
            severity=Severity(rule.severity),
            action=RuleAction(rule.action),
            runbook=rule.runbook,
            run=rule.run.name if rule.run else None,
            run_uid=rule.run.uid if rule.run else None,
            filter=rule.run_filter,
            is_enabled=rule.is_enabled,
            condition=rule.limit.condition,
            created_at=rule.created_at,
            created_by=shown_name(rule.created_by, names),
            changed_at=rule.changed_at,
            changed_by=shown_name(rule.changed_by, names),
            firing=firing.get(str(rule.pk), 0),
        )
        for rule in rules
    ]


# Alert conditions of runs: failed, differing trainers, unbalanced ledger.

_COLUMNS: Final = ("pk", "name", "status", "status_reason")


def failed_runs(_now: datetime) -> list[Condition]:
    """Return the failed runs that were neither restarted nor archived."""
    failed = Run.objects.current().filter(status=RunStatus.FAILED).order_by("-pk")
    return [
        Condition(
            kind=AlertKind.RUN_FAILED, run_id=run_id, message=_with_reason(f"{name} failed", reason)
        )
        for run_id, name, _, reason in failed.values_list(*_COLUMNS)[:SEEN_AT_MOST]
    ]


def differing_registrations(_now: datetime) -> list[Condition]:
    """Return the trainers of active runs that registered with other settings than the run's."""
    trainers = Trainer.objects.filter(
        run__archived_at=None, run__status__in=ACTIVE, differences__isnull=False
    )
    return [
        Condition(
            kind=AlertKind.REGISTRATION_DIFFERS,
            run_id=trainer.run_id,
            subject=str(trainer.pk),
            message=f"{trainer.name or trainer.identity} registered with "
            + describe_differences(trainer.differences or {}),
        )
        for trainer in trainers.order_by("-pk")[:SEEN_AT_MOST]
    ]


def unbalanced_ledgers(_now: datetime) -> list[Condition]:
    """Return the runs whose counters differ from their rows."""
    wrong = Run.objects.exclude(ledger_problem="").order_by("-pk")
    return [
        Condition(
            kind=AlertKind.LEDGER_UNBALANCED,
            run_id=run_id,
            message=_with_reason(f"the ledger of {name} does not balance", problem),
        )
        for run_id, name, problem in wrong.values_list("pk", "name", "ledger_problem")[
            :SEEN_AT_MOST
        ]
    ]


def _with_reason(what: str, reason: str) -> str:
    return f"{what}: {reason}" if reason else what


# Find environments whose pushes are refused.

RECENT: Final = timedelta(minutes=10)
"""Window since the newest refusal: environments of slow tasks push once in minutes."""
# Reasons without data loss, since clients retry, and those with a separate alert kind.
_TRANSIENT: Final = frozenset(
    {"disk_full", "in_flight", "over_quota", "run_not_accepting", "run_over", "storage_down"}
)


UNREGISTERED: Final = "unknown environments"
"""Name for the senders of pushes that name no environment of their run, or cannot be read."""
WORKERS: Final = "its workers"
"""Name for the senders of pushes in a run with a fleet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedEnvironment:
    """An environment with recently refused pushes, and the newest reason."""

    run_id: int
    run: str
    environment: str
    """Its name, :data:`UNREGISTERED` or :data:`WORKERS`."""
    pushes: int
    groups: int
    """Groups of these pushes."""
    newest_at: datetime
    reason: str
    """Code of the newest refusal."""
    message: str

    def lost(self, unit: str) -> str:
        """Return the number of lost groups or fragments and of pushes in words."""
        items, pushes = f"{self.groups:,} {unit}", f"{self.pushes:,} push"
        return (
            f"{items}{'s' if self.groups != 1 else ''} in {pushes}"
            f"{'es' if self.pushes != 1 else ''}"
        )

    @property
    def advice(self) -> str:
        """Remedy for the newest refusal."""
        return advice_for(self.reason)


def refused_environments(*, now: datetime, run_id: int | None = None) -> list[RefusedEnvironment]:
    """Return the environments of active runs, or of one run, whose pushes were refused recently.

    Pushes that name no environment of their run count as those of one more environment.
    """
    environments = Environment.objects.filter(refused__isnull=False, run__archived_at=None)
    runs = Run.objects.current().filter(refused__isnull=False)
    if run_id is None:
        environments = environments.filter(run__status__in=ACTIVE)
        runs = runs.active()
    else:
        environments, runs = environments.filter(run_id=run_id), runs.filter(pk=run_id)
    named = environments.order_by("-run_id", "env_id").values_list(
        "run_id", "run__name", "wandb_name", "refused"
    )[:SEEN_AT_MOST]
    unnamed = runs.order_by("-id").values_list("id", "name", "refused", "kind")[:SEEN_AT_MOST]
    rows: list[tuple[int, str, str, Any]] = [
        *named,
        *(
            (pk, name, UNREGISTERED if kind == RunKind.OUTSIDE else WORKERS, refused)
            for pk, name, refused, kind in unnamed
        ),
    ]
    recent = []
    for pk, run, environment, refused in rows:
        counts = msgspec.convert(refused, dict[str, RefusedPushes])
        lost = [(reason, one) for reason, one in counts.items() if reason not in _TRANSIENT]
        reason, newest = max(lost, key=lambda each: each[1].newest_at, default=("", None))
        if newest is not None and newest.newest_at >= now - RECENT:
            recent.append(
                RefusedEnvironment(
                    run_id=pk,
                    run=run,
                    environment=environment,
                    pushes=sum(one.pushes for _, one in lost),
                    groups=sum(max(one.groups, one.pushes) for _, one in lost),
                    newest_at=newest.newest_at,
                    reason=reason,
                    message=newest.message,
                )
            )
    return recent
