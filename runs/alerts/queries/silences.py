"""Read silences of alerts."""

from datetime import datetime
from typing import Final

from django.db.models import Case, Q, QuerySet, When

from runs.access.queries import shown_name, token_names
from runs.alerts.models import Alert, AlertSilence
from runs.alerts.rules import AlertKind, AlertState, Silence, silenced_until
from runs.alerts.schemas import SilenceList, SilenceRow
from web.rules.errors import NotFound

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


def until_of(alert: Alert, known: list[Silence]) -> datetime | None:
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
        kind=row.kind,  # type: ignore[arg-type]
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
