"""Read alerts and their deliveries."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec
from django.conf import settings
from django.db.models import Case, Count, Q, QuerySet, When

from runs.access.queries import shown_name, token_names
from runs.alerts.models import Alert, AlertDelivery
from runs.alerts.queries.channels import channels
from runs.alerts.queries.silences import silenced_ids, silences, until_of
from runs.alerts.rules import KINDS, AlertKind, AlertState, Severity, Silence
from runs.alerts.schemas import (
    AlertDeliveryRow,
    AlertDetail,
    AlertGroup,
    AlertKindList,
    AlertKindRow,
    AlertList,
    AlertRow,
    AlertSummary,
    WebhookList,
    WebhookRow,
)
from web.rules.errors import NotFound
from web.rules.pages import PageRequest

ALERTS_AT_MOST: Final = 200
NEWEST: Final = 8
GROUPED_AT_MOST: Final = 1_000
"""Maximum number of alerts that are grouped by kind."""
DELIVERIES_AT_MOST: Final = 100
UNRESOLVED: Final = ~Q(state=AlertState.RESOLVED)
_DERIVED: Final = frozenset({"title", "advice", "metric", "silenced_until"})


class AlertNotFound(NotFound):
    """The alert does not exist."""


def alert_kinds() -> AlertKindList:
    """Return every kind of alert."""
    return AlertKindList(
        results=[
            AlertKindRow(
                kind=kind.value,
                title=note.title,
                advice=note.advice,
                severity=note.severity.value,
            )
            for kind, note in sorted(KINDS.items())
        ],
        next=None,
    )


def alert_page(page: PageRequest[int], *, filters: Mapping[str, str], now: datetime) -> AlertList:
    """Return alerts, newest first.

    Args:
        page: The requested page.
        filters: Any of `state` (a state, `unresolved`, `silenced` or `all`), `severity`, `kind`,
            `run` (exact match), `text` (a part of the message).
        now: Time at which silences are evaluated.
    """
    found = _filtered(filters, now=now)
    if page.after is not None:
        found = found.filter(pk__lt=page.after)
    newest_first = found.select_related("run").order_by("-pk")
    rows, cursor = page.cut(newest_first[: page.limit + 1], lambda alert: alert.pk)
    return AlertList(
        results=_rows(rows, now=now),
        next=cursor,
        summary=alert_summary(now=now),
    )


def _filtered(filters: Mapping[str, str], *, now: datetime) -> QuerySet[Alert]:
    found = Alert.objects.all()
    state = filters.get("state") or "unresolved"
    if state == "unresolved":
        found = found.filter(UNRESOLVED)
    elif state == "silenced":
        found = found.filter(pk__in=silenced_ids(now=now))
    elif state != "all":
        found = found.filter(state=state)
    for name, column in {"severity": "severity", "kind": "kind", "run": "run__name"}.items():
        if filters.get(name):
            found = found.filter(**{column: filters[name]})
    if text := filters.get("text"):
        found = found.filter(message__icontains=text)
    return found


def alert_summary(*, now: datetime) -> AlertSummary:
    """Return the counts of alerts that need attention, and the newest, errors first.

    Silenced alerts are counted separately.
    """
    still = silenced_ids(now=now)
    counted = unresolved_counts(besides=still)
    errors_first = Case(When(severity=Severity.ERROR, then=0), default=1)
    opened = Alert.objects.filter(state=AlertState.OPEN)
    newest = opened.exclude(pk__in=still).order_by(errors_first, "-pk")
    return AlertSummary(
        errors=counted[AlertState.OPEN, Severity.ERROR],
        warnings=counted[AlertState.OPEN, Severity.WARNING],
        acknowledged=sum(counted[AlertState.ACKNOWLEDGED, each] for each in Severity),
        silenced=opened.filter(pk__in=still).count() if still else 0,
        newest=_rows(list(newest.select_related("run")[:NEWEST]), now=now),
        groups=_groups(newest, now=now),
    )


def _groups(opened: QuerySet[Alert], *, now: datetime) -> list[AlertGroup]:
    """Return the first alert of each kind, with the number of its alerts and their runs."""
    grouped: dict[tuple[str, str], list[tuple[int, str | None]]] = {}
    columns = opened.values_list("kind", "subject", "pk", "run__name")
    for kind, subject, alert_id, run in columns[:GROUPED_AT_MOST]:
        key = (kind, subject if kind == AlertKind.RULE else "")
        grouped.setdefault(key, []).append((alert_id, run))
    first = opened.filter(pk__in=[alerts[0][0] for alerts in grouped.values()])
    rows = {row.id: row for row in _rows(list(first.select_related("run")), now=now)}
    return [
        AlertGroup(
            alert=rows[alerts[0][0]],
            count=len(alerts),
            runs=list(dict.fromkeys(run for _, run in alerts if run is not None)),
        )
        for alerts in grouped.values()
        if alerts[0][0] in rows
    ]


def unresolved_counts(*, besides: Sequence[int] = ()) -> dict[tuple[str, str], int]:
    """Return the number of unresolved alerts for every pair of state and severity.

    Open alerts with an id in `besides` are excluded.
    """
    states = (AlertState.OPEN, AlertState.ACKNOWLEDGED)
    counts: dict[tuple[str, str], int] = {(state, each): 0 for state in states for each in Severity}
    found = Alert.objects.filter(UNRESOLVED).exclude(state=AlertState.OPEN, pk__in=besides)
    rows = found.order_by().values_list("state", "severity")
    return counts | {(state, each): number for state, each, number in rows.annotate(Count("pk"))}


def alert_of(alert_id: int) -> Alert:
    """Return an alert.

    Raises:
        AlertNotFound: If there is no alert with this id.
    """
    alert = Alert.objects.select_related("run").filter(pk=alert_id).first()
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
                least_severity=str(one.least),  # type: ignore[arg-type]
                last_test=newest.get(one.fingerprint),
            )
            for one in known
        ],
        next=None,
    )


def _rows(alerts: list[Alert], *, now: datetime) -> list[AlertRow]:
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
        silenced_until=_silenced_until(alert, known),
    )


def _silenced_until(alert: Alert, known: Sequence[Silence]) -> datetime | None:
    return until_of(alert, list(known)) if known else None
