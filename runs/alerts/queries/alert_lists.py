"""Queries of alerts, their deliveries, snoozes and channels."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

import msgspec
from django.conf import settings
from django.db.models import Case, Count, F, Q, QuerySet, When

from runs.access.queries import shown_name, token_names
from runs.alerts import rules
from runs.alerts.models import Alert, AlertDelivery, AlertSnooze
from runs.alerts.rules import (
    KINDS,
    AlertKind,
    AlertState,
    Severity,
)
from runs.alerts.schemas import (
    AlertDeliveryRow,
    AlertDetail,
    AlertGroup,
    AlertKindList,
    AlertKindRow,
    AlertList,
    AlertRow,
    AlertSummary,
    SnoozeList,
    SnoozeRow,
    WebhookList,
    WebhookRow,
)
from web.rules.errors import NotFound
from web.rules.pages import PageRequest

# Read snoozes of alerts.


class SnoozeNotFound(NotFound):
    """The snooze does not exist, or is over."""


def lasting(*, now: datetime) -> QuerySet[AlertSnooze]:
    """Return the snoozes that apply at a given time, those that end last first."""
    rows = AlertSnooze.objects.filter(Q(until=None) | Q(until__gt=now))
    return rows.order_by(F("until").desc(nulls_first=True), "-pk")


def snooze_of(alert: Alert, known: Iterable[AlertSnooze]) -> AlertSnooze | None:
    """Return the snooze of an alert that ends last; None without one, or if it cleared."""
    if alert.cleared_at is not None:
        return None
    return next((one for one in known if one.covers(alert)), None)


def snoozed_ids(*, now: datetime) -> list[int]:
    """Return the ids of unresolved, snoozed alerts."""
    known = list(lasting(now=now))
    if not known:
        return []
    candidates = Alert.objects.filter(
        ~Q(state=AlertState.RESOLVED), cleared_at=None, kind__in={one.kind for one in known}
    )
    return [alert.pk for alert in candidates if snooze_of(alert, known)]


def snooze_list(*, now: datetime) -> SnoozeList:
    """Return all snoozes that apply, those that end last first."""
    rows = list(lasting(now=now).select_related("alert", "rule", "run"))
    names = token_names(row.created_by for row in rows)
    return SnoozeList(results=[snooze_row(row, names=names) for row in rows], next=None)


def snooze_row(row: AlertSnooze, *, names: Mapping[str, str]) -> SnoozeRow:
    """Return a snooze for the API; `names` are those of tokens, by identity."""
    return SnoozeRow(
        id=row.pk,
        kind=AlertKind(row.kind),
        title=row.rule.name if row.rule else KINDS[AlertKind(row.kind)].title,
        message=row.alert.message if row.alert else "",
        alert=row.alert_id,
        rule=None if row.alert_key else row.rule_id,
        run=row.run.name if row.run else None,
        run_uid=row.run.uid if row.run else None,
        until=row.until,
        reason=row.reason,
        created_at=row.created_at,
        created_by=shown_name(row.created_by, names),
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
_DERIVED: Final = frozenset(
    {"title", "advice", "metric", "run", "run_uid", "is_snoozed", "snoozed_until"}
)


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
        filters: Any of `state` (a state, `unresolved` or `all`), `severity`, `kind`,
            `run` (exact match), `text` (a part of the message).
        now: Time at which snoozes are evaluated.
    """
    alerts = Alert.objects.order_by("-pk")
    state = filters.get("state") or "unresolved"
    if state == "unresolved":
        alerts = alerts.filter(UNRESOLVED)
    elif state != "all":
        alerts = alerts.filter(state=state)
    for name in ("severity", "kind"):
        if filters.get(name):
            alerts = alerts.filter(**{name: filters[name]})
    if run := filters.get("run"):
        alerts = alerts.filter(Q(run__name=run) | Q(run__uid=run))
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

    Snoozed alerts are counted separately.
    """
    still = snoozed_ids(now=now)
    counted = unresolved_counts(besides=still)
    opened = Alert.objects.filter(state=AlertState.OPEN)
    newest = opened.exclude(pk__in=still).order_by(ERRORS_FIRST, "-pk")
    return AlertSummary(
        errors=counted[AlertState.OPEN, Severity.ERROR],
        warnings=counted[AlertState.OPEN, Severity.WARNING],
        acknowledged=sum(counted[AlertState.ACKNOWLEDGED, each] for each in Severity),
        snoozed=opened.filter(pk__in=still).count() if still else 0,
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
        **msgspec.structs.asdict(alert_row(alert, names=names, known=lasting(now=now))),
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
    known = list(lasting(now=now))
    return [alert_row(alert, names=names, known=known) for alert in alerts]


def alert_row(
    alert: Alert, *, names: Mapping[str, str], known: Iterable[AlertSnooze] = ()
) -> AlertRow:
    """Return an alert for the API; `names` are those of tokens, by identity.

    An alert of a rule has the name and runbook that the rule had when it was last observed.
    """
    note = KINDS[AlertKind(alert.kind)]
    own = set(AlertRow.__struct_fields__) - _DERIVED
    given: dict[str, Any] = {name: getattr(alert, name) for name in own}
    for name in ("acknowledged_by", "resolved_by"):
        given[name] = shown_name(given[name], names)
    details = alert.details if alert.kind == AlertKind.RULE else {}
    snooze = snooze_of(alert, known)
    return AlertRow(
        **given,
        run=alert.run.name if alert.run else None,
        run_uid=alert.run.uid if alert.run else None,
        title=details.get("title") or note.title,
        advice=details.get("runbook") or note.advice,
        metric=details.get("metric", ""),
        is_snoozed=snooze is not None,
        snoozed_until=snooze.until if snooze else None,
    )
