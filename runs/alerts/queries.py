"""Queries of alerts, their rules, silences, channels and conditions."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

import msgspec
from django.conf import settings
from django.db.models import Case, Count, Q, QuerySet, When

from runs.access.queries import shown_name, token_names
from runs.alerts import rules
from runs.alerts.models import Alert, AlertDelivery, AlertRule, AlertSilence
from runs.alerts.rules import (
    KINDS,
    RULES_AT_MOST,
    SEEN_AT_MOST,
    AlertKind,
    AlertState,
    Condition,
    Severity,
    Silence,
    advice_for,
    silenced_until,
)
from runs.alerts.schemas import (
    AlertDeliveryRow,
    AlertDetail,
    AlertGroup,
    AlertKindList,
    AlertKindRow,
    AlertList,
    AlertRow,
    AlertRuleList,
    AlertRuleRow,
    AlertSummary,
    SilenceList,
    SilenceRow,
    WebhookList,
    WebhookRow,
)
from runs.lifecycle.models import Environment, Run, RunKind, Trainer
from runs.lifecycle.rules import ACTIVE, RunStatus, describe_differences
from runs.lifecycle.schemas import RefusedPushes
from runs.search.queries.lists import filtered
from web.rules.errors import NotFound
from web.rules.pages import PageRequest

# Read silences of alerts.

SHOWN_AT_MOST: Final = 100


class SilenceNotFound(NotFound):
    """The silence does not exist, or has ended."""


def lasting(*, now: datetime) -> QuerySet[AlertSilence]:
    """Return the silences active at a given time."""
    return AlertSilence.objects.filter(ended_at=None, until__gt=now)


def silences(*, now: datetime) -> list[Silence]:
    """Return the rules of the active silences."""
    return [
        Silence(kind=AlertKind(kind), rule_id=rule_id, run_id=run_id, until=until)
        for kind, rule_id, run_id, until in lasting(now=now).values_list(
            "kind", "rule_id", "run_id", "until"
        )
    ]


def until_of(alert: Alert, known: Sequence[Silence]) -> datetime | None:
    """Return the end of an alert's silence; None if it is not silenced, or cleared."""
    if alert.cleared_at is not None:
        return None
    return silenced_until(known, kind=alert.kind, subject=alert.subject, run_id=alert.run_id)


def silenced_ids(*, now: datetime) -> list[int]:
    """Return the ids of unresolved, silenced alerts."""
    known = silences(now=now)
    if not known:
        return []
    candidates = Alert.objects.filter(
        ~Q(state=AlertState.RESOLVED), cleared_at=None, kind__in={one.kind for one in known}
    )
    return [alert.pk for alert in candidates if until_of(alert, known)]


def silence_list(*, now: datetime) -> SilenceList:
    """Return active silences, then ended ones, newest first."""
    lasts_first = Case(When(ended_at=None, until__gt=now, then=0), default=1)
    rows = list(
        AlertSilence.objects.select_related("run", "rule").order_by(lasts_first, "-pk")[
            :SHOWN_AT_MOST
        ]
    )
    names = token_names(one for row in rows for one in (row.created_by, row.ended_by))
    return SilenceList(results=[silence_row(row, names=names, now=now) for row in rows], next=None)


def silence_row(row: AlertSilence, *, names: dict[str, str], now: datetime) -> SilenceRow:
    """Return a silence for the API; `names` are those of tokens, by identity."""
    return SilenceRow(
        id=row.pk,
        kind=AlertKind(row.kind),
        rule=row.rule_id,
        rule_name=row.rule.name if row.rule else "",
        run=row.run.name if row.run else None,
        until=row.until,
        reason=row.reason,
        created_at=row.created_at,
        created_by=shown_name(row.created_by, names),
        ended_at=row.ended_at,
        ended_by=shown_name(row.ended_by, names),
        is_lasting=row.ended_at is None and row.until > now,
    )


# Notification channels: the webhooks and mail addresses of the settings.

MAIL: Final = "mailto:"
_WEIGHTS: Final = list(Severity)


class Channel(NamedTuple):
    """One notification channel."""

    address: str
    """A URL: ``https://…``, which may be secret, or ``mailto:…``."""
    least: Severity
    """Minimum severity of its alerts."""

    @property
    def is_mail(self) -> bool:
        """Return whether the channel is a mail address."""
        return self.address.startswith(MAIL)

    @property
    def label(self) -> str:
        """Return the displayable part of the address."""
        return self.address if self.is_mail else rules.label(self.address)

    @property
    def fingerprint(self) -> str:
        """Return a hash that identifies the channel without revealing its address."""
        return rules.fingerprint(self.address)

    def receives_severity(self, severity: str) -> bool:
        """Return whether the channel receives alerts of this severity."""
        return _WEIGHTS.index(Severity(severity)) >= _WEIGHTS.index(self.least)


def channels() -> list[Channel]:
    """Return the configured channels, webhooks first."""
    hooks = Severity(settings.ROLLDECK_ALERT_WEBHOOK_LEVEL)
    mails = Severity(settings.ROLLDECK_ALERT_EMAIL_LEVEL)
    return [
        *(Channel(url, hooks) for url in settings.ROLLDECK_ALERT_WEBHOOKS),
        *(Channel(MAIL + address, mails) for address in settings.ROLLDECK_ALERT_EMAILS),
    ]


def channel_of(fingerprint: str) -> Channel | None:
    """Return the channel with a fingerprint, or None if it is not configured."""
    return next((one for one in channels() if one.fingerprint == fingerprint), None)


# Read alerts and their deliveries.

ALERTS_AT_MOST: Final = 200
NEWEST: Final = 8
GROUPED_AT_MOST: Final = 1_000
"""Maximum number of alerts that are grouped by kind."""
DELIVERIES_AT_MOST: Final = 100
ERRORS_FIRST: Final = Case(When(severity=Severity.ERROR, then=0), default=1)
UNRESOLVED: Final = ~Q(state=AlertState.RESOLVED)
_DERIVED: Final = frozenset({"title", "advice", "metric", "silenced_until"})


class AlertNotFound(NotFound):
    """The alert does not exist."""


def alert_kinds() -> AlertKindList:
    """Return every kind of alert."""
    return AlertKindList(
        results=[
            AlertKindRow(kind=kind, title=note.title, advice=note.advice, severity=note.severity)
            for kind, note in sorted(KINDS.items())
        ],
        next=None,
    )


def alert_page(page: PageRequest[int], *, filters: Mapping[str, str], now: datetime) -> AlertList:
    """Return alerts, newest first.

    Unresolved alerts of one kind are one row, errors first, unless the filters name the kind.

    Args:
        page: The requested page.
        filters: Any of `state` (a state, `unresolved`, `silenced` or `all`), `severity`, `kind`,
            `run` (exact match), `text` (a part of the message).
        now: Time at which silences are evaluated.
    """
    alerts = Alert.objects.order_by("-pk")
    state = filters.get("state") or "unresolved"
    if state == "unresolved":
        alerts = alerts.filter(UNRESOLVED)
    elif state == "silenced":
        alerts = alerts.filter(pk__in=silenced_ids(now=now))
    elif state != "all":
        alerts = alerts.filter(state=state)
    for name, column in {"severity": "severity", "kind": "kind", "run": "run__name"}.items():
        if filters.get(name):
            alerts = alerts.filter(**{column: filters[name]})
    if text := filters.get("text"):
        alerts = alerts.filter(message__icontains=text)
    if filters.get("kind") or filters.get("state") in {"all", AlertState.RESOLVED}:
        if page.after is not None:
            alerts = alerts.filter(pk__lt=page.after)
        groups = [
            _group(row, runs=[row.run])
            for row in _rows(alerts.select_related("run")[: page.limit + 1], now=now)
        ]
    else:
        groups = _groups(alerts.order_by(ERRORS_FIRST, "-pk"), now=now)
        if page.after is not None:
            last = Alert.objects.filter(pk=page.after).values_list("severity", flat=True).first()
            after = _place(last or Severity.ERROR, page.after)
            groups = [group for group in groups if _place(group.severity, group.id) > after]
    results, cursor = page.cut(groups, lambda group: group.id)
    return AlertList(results=results, next=cursor, summary=alert_summary(now=now))


def alert_summary(*, now: datetime) -> AlertSummary:
    """Return the counts of alerts that need attention, and the newest, errors first.

    Silenced alerts are counted separately.
    """
    still = silenced_ids(now=now)
    counted = unresolved_counts(besides=still)
    opened = Alert.objects.filter(state=AlertState.OPEN)
    newest = opened.exclude(pk__in=still).order_by(ERRORS_FIRST, "-pk")
    return AlertSummary(
        errors=counted[AlertState.OPEN, Severity.ERROR],
        warnings=counted[AlertState.OPEN, Severity.WARNING],
        acknowledged=sum(counted[AlertState.ACKNOWLEDGED, each] for each in Severity),
        silenced=opened.filter(pk__in=still).count() if still else 0,
        newest=_rows(newest.select_related("run")[:NEWEST], now=now),
        groups=_groups(newest, now=now),
    )


def _groups(alerts: QuerySet[Alert], *, now: datetime) -> list[AlertGroup]:
    """Return the first alert of each kind and state, with the number of them and their runs."""
    runs: dict[int, list[str | None]] = {}
    first: dict[tuple[str, str, str], int] = {}
    columns = alerts.values_list("kind", "subject", "state", "pk", "run__name")
    for kind, subject, state, alert_id, run in columns[:GROUPED_AT_MOST]:
        key = (kind, subject if kind == AlertKind.RULE else "", state)
        runs.setdefault(first.setdefault(key, alert_id), []).append(run)
    rows = _rows(alerts.filter(pk__in=list(runs)).select_related("run"), now=now)
    return [_group(row, runs=runs[row.id]) for row in rows]


def _place(severity: str, alert_id: int) -> tuple[bool, int]:
    """Return the sort key of alerts, errors first and then the newest."""
    return severity != Severity.ERROR, -alert_id


def _group(row: AlertRow, *, runs: list[str | None]) -> AlertGroup:
    names = list(dict.fromkeys(run for run in runs if run is not None))
    return AlertGroup(**msgspec.structs.asdict(row), count=len(runs), runs=names)


def unresolved_counts(*, besides: Sequence[int] = ()) -> dict[tuple[str, str], int]:
    """Return the number of unresolved alerts for every pair of state and severity.

    Open alerts with an id in `besides` are excluded.
    """
    states = (AlertState.OPEN, AlertState.ACKNOWLEDGED)
    counts: dict[tuple[str, str], int] = {(state, each): 0 for state in states for each in Severity}
    found = Alert.objects.filter(UNRESOLVED).exclude(state=AlertState.OPEN, pk__in=besides)
    rows = found.order_by().values_list("state", "severity")
    return counts | {(state, each): number for state, each, number in rows.annotate(Count("pk"))}


def alert_of(alert_id: int, *, lock: bool = False) -> Alert:
    """Return an alert; `lock` keeps it until the end of the transaction.

    Raises:
        AlertNotFound: If there is no alert with this id.
    """
    alerts = Alert.objects.select_related("run")
    if lock:
        alerts = alerts.select_for_update(of=("self",))
    alert = alerts.filter(pk=alert_id).first()
    if alert is None:
        raise AlertNotFound(f"alert {alert_id} not found")
    return alert


def alert_detail(alert: Alert, *, now: datetime) -> AlertDetail:
    """Return an alert with its details and deliveries, newest first."""
    deliveries = alert.deliveries.order_by("-pk")[:DELIVERIES_AT_MOST]
    names = token_names([alert.acknowledged_by, alert.resolved_by])
    return AlertDetail(
        **msgspec.structs.asdict(alert_row(alert, names=names, known=silences(now=now))),
        details=alert.details,
        deliveries=[delivery_row(row) for row in deliveries],
    )


def delivery_row(row: AlertDelivery) -> AlertDeliveryRow:
    """Return a delivery for the API."""
    return AlertDeliveryRow(
        **{name: getattr(row, name) for name in AlertDeliveryRow.__struct_fields__}
    )


def webhooks() -> WebhookList:
    """Return the configured channels, each with its newest test delivery."""
    known = channels()
    tests = AlertDelivery.objects.filter(change="test").order_by("target_fingerprint", "-pk")
    newest = {
        row.target_fingerprint: delivery_row(row)
        for row in tests.filter(target_fingerprint__in=[one.fingerprint for one in known]).distinct(
            "target_fingerprint"
        )
    }
    return WebhookList(
        results=[
            WebhookRow(
                id=one.fingerprint,
                channel="email" if one.is_mail else "webhook",
                target=one.label,
                is_signed=bool(settings.ROLLDECK_ALERT_WEBHOOK_SECRET) and not one.is_mail,
                least_severity=one.least,
                last_test=newest.get(one.fingerprint),
            )
            for one in known
        ],
        next=None,
    )


def _rows(alerts: Iterable[Alert], *, now: datetime) -> list[AlertRow]:
    alerts = list(alerts)
    names = token_names(
        one for alert in alerts for one in (alert.acknowledged_by, alert.resolved_by)
    )
    known = silences(now=now)
    return [alert_row(alert, names=names, known=known) for alert in alerts]


def alert_row(alert: Alert, *, names: Mapping[str, str], known: Sequence[Silence] = ()) -> AlertRow:
    """Return an alert for the API; `names` are those of tokens, by identity.

    An alert of a rule has the name and runbook that the rule had when it was last observed.
    """
    note = KINDS[AlertKind(alert.kind)]
    own = set(AlertRow.__struct_fields__) - _DERIVED
    given: dict[str, Any] = {name: getattr(alert, name) for name in own}
    given["run"] = alert.run.name if alert.run else None
    for name in ("acknowledged_by", "resolved_by"):
        given[name] = shown_name(given[name], names)
    details = alert.details if alert.kind == AlertKind.RULE else {}
    return AlertRow(
        **given,
        title=details.get("title") or note.title,
        advice=details.get("runbook") or note.advice,
        metric=details.get("metric", ""),
        silenced_until=until_of(alert, known),
    )


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
            runbook=rule.runbook,
            run=rule.run.name if rule.run else None,
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
