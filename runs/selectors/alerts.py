"""Read what is wrong, or was, and whom it was told."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from django.conf import settings
from django.db.models import Case, Count, Q, QuerySet, When

from runs.core.alerts import KINDS, AlertKind, AlertState, Severity
from runs.core.webhooks import fingerprint, label
from runs.models import Alert, AlertDelivery
from runs.selectors.watching import token_names
from runs.wire.alerts import (
    AlertDeliveryRow,
    AlertDetail,
    AlertList,
    AlertRow,
    AlertSummary,
    WebhookList,
    WebhookRow,
)

ALERTS_AT_MOST: Final = 200
NEWEST: Final = 8
DELIVERIES_AT_MOST: Final = 100
UNRESOLVED: Final = ~Q(state=AlertState.RESOLVED)
_FROM_KIND: Final = frozenset({"title", "advice"})


class AlertNotFound(LookupError):
    """There is no such alert."""


def alert_page(*, asked: Mapping[str, str], before: int | None, limit: int) -> AlertList:
    """Return alerts, newest first.

    Args:
        asked: Any of `state` (a state, `unresolved` or `all`), `severity`, `kind`, `run` (whole),
            `text` (a part of the message).
        before: Only alerts with a smaller id.
        limit: Rows at most.
    """
    found = _asked(asked)
    if before is not None:
        found = found.filter(pk__lt=before)
    rows = list(found.select_related("run").order_by("-pk")[: limit + 1])
    rest, rows = rows[limit:], rows[:limit]
    return AlertList(
        results=_rows(rows),
        next_before=rows[-1].pk if rest else None,
        summary=alert_summary(),
    )


def _asked(asked: Mapping[str, str]) -> QuerySet[Alert]:
    found = Alert.objects.all()
    state = asked.get("state") or "unresolved"
    if state == "unresolved":
        found = found.filter(UNRESOLVED)
    elif state != "all":
        found = found.filter(state=state)
    for name, column in {"severity": "severity", "kind": "kind", "run": "run__name"}.items():
        if asked.get(name):
            found = found.filter(**{column: asked[name]})
    if text := asked.get("text"):
        found = found.filter(message__icontains=text)
    return found


def alert_summary() -> AlertSummary:
    """Return how much needs attention, and the newest of it, errors first."""
    counted = unresolved_counts()
    errors_first = Case(When(severity=Severity.ERROR, then=0), default=1)
    newest = Alert.objects.filter(state=AlertState.OPEN).select_related("run")
    return AlertSummary(
        errors=counted[AlertState.OPEN, Severity.ERROR],
        warnings=counted[AlertState.OPEN, Severity.WARNING],
        acknowledged=sum(counted[AlertState.ACKNOWLEDGED, each] for each in Severity),
        newest=_rows(list(newest.order_by(errors_first, "-pk")[:NEWEST])),
    )


def unresolved_counts() -> dict[tuple[str, str], int]:
    """Return how many alerts are not resolved, by state and severity; a number for every pair."""
    states = (AlertState.OPEN, AlertState.ACKNOWLEDGED)
    counts: dict[tuple[str, str], int] = {(state, each): 0 for state in states for each in Severity}
    rows = Alert.objects.filter(UNRESOLVED).order_by().values_list("state", "severity")
    return counts | {(state, each): number for state, each, number in rows.annotate(Count("pk"))}


def alert_of(alert_id: int) -> Alert:
    """Return an alert.

    Raises:
        AlertNotFound: If there is none of this id.
    """
    alert = Alert.objects.select_related("run").filter(pk=alert_id).first()
    if alert is None:
        raise AlertNotFound(f"there is no alert {alert_id}")
    return alert


def alert_detail(alert: Alert) -> AlertDetail:
    """Return an alert with what is known of it, and whom it told, the newest first."""
    deliveries = alert.deliveries.order_by("-pk")[:DELIVERIES_AT_MOST]
    names = token_names([alert.acknowledged_by, alert.resolved_by])
    return AlertDetail(
        **msgspec.structs.asdict(alert_row(alert, names=names)),
        details=alert.details,
        deliveries=[delivery_row(row) for row in deliveries],
    )


def delivery_row(row: AlertDelivery) -> AlertDeliveryRow:
    """Return a delivery as pages show it."""
    return AlertDeliveryRow(
        **{name: getattr(row, name) for name in AlertDeliveryRow.__struct_fields__}
    )


def webhooks() -> WebhookList:
    """Return the webhooks that are set, each with the newest sample that was sent to it."""
    urls = settings.ROLLDECK_ALERT_WEBHOOKS
    tests = AlertDelivery.objects.filter(change="test").order_by("target_fingerprint", "-pk")
    newest = {
        row.target_fingerprint: delivery_row(row)
        for row in tests.filter(target_fingerprint__in=map(fingerprint, urls)).distinct(
            "target_fingerprint"
        )
    }
    return WebhookList(
        results=[
            WebhookRow(
                id=fingerprint(url),
                target=label(url),
                is_signed=bool(settings.ROLLDECK_ALERT_WEBHOOK_SECRET),
                least_severity=settings.ROLLDECK_ALERT_WEBHOOK_LEVEL,  # type: ignore[arg-type]
                last_test=newest.get(fingerprint(url)),
            )
            for url in urls
        ]
    )


def _rows(alerts: list[Alert]) -> list[AlertRow]:
    names = token_names(
        one for alert in alerts for one in (alert.acknowledged_by, alert.resolved_by)
    )
    return [alert_row(alert, names=names) for alert in alerts]


def alert_row(alert: Alert, *, names: Mapping[str, str]) -> AlertRow:
    """Return an alert as lists show it; `names` are those of tokens, by identity."""
    note = KINDS[AlertKind(alert.kind)]
    own = set(AlertRow.__struct_fields__) - _FROM_KIND
    given: dict[str, Any] = {name: getattr(alert, name) for name in own}
    given["run"] = alert.run.name if alert.run else None
    for name in ("acknowledged_by", "resolved_by"):
        given[name] = _person(given[name], names)
    return AlertRow(**given, title=note.title, advice=note.advice)


def _person(identity: str, names: Mapping[str, str]) -> str:
    return names.get(identity) or identity.partition(":")[2] or identity
