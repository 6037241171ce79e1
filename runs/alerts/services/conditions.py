"""Evaluate alert conditions every few seconds; raise new alerts and clear ended ones.

Alerts reflect the present state of the tables, so no code needs to report a recovery. A failed
evaluation is made up for by the next one. Apps above this one register their conditions in
``AppConfig.ready``.
"""

import logging
from collections.abc import Callable, Collection
from datetime import datetime, timedelta
from typing import Final

from django.db import connection, transaction

from runs.alerts.models import Alert
from runs.alerts.rules import SEEN_AT_MOST, AlertKind, Condition, compare
from runs.alerts.services import alerts, webhooks

logger = logging.getLogger(__name__)

# Limits the writes for alerts whose condition still holds.
REFRESH_AFTER: Final = timedelta(seconds=30)
Evaluator = Callable[[datetime], list[Condition]]

_evaluators: dict[frozenset[AlertKind], Evaluator] = {}


def register(kinds: Collection[AlertKind], evaluate: Evaluator) -> None:
    """Register ``evaluate(now)``, which returns the conditions of `kinds`, at most SEEN_AT_MOST."""
    _evaluators[frozenset(kinds)] = evaluate


@transaction.atomic
def watch(*, now: datetime, only: Collection[AlertKind] | None = None) -> int:
    """Evaluate all conditions once; return the number of alerts raised or cleared.

    A concurrent evaluation does nothing. Alerts whose evaluation fails stay unchanged.

    Args:
        now: Present time.
        only: Kinds to evaluate; None for all.
    """
    if not _exclusive():
        return 0
    changed = 0
    for kinds, evaluate in _evaluators.items():
        if only is not None and kinds.isdisjoint(only):
            continue
        try:
            with transaction.atomic():
                changed += _settle(kinds, evaluate(now), now=now)
        except Exception:
            logger.exception("evaluation of %s failed", ", ".join(sorted(kinds)))
    webhooks.deliver_held_back(now=now)
    return changed


def _exclusive() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(hashtext('rolldeck conditions'))")
        return bool(cursor.fetchone()[0])


def _settle(kinds: Collection[AlertKind], found: list[Condition], *, now: datetime) -> int:
    standing = {alert.pk: alert for alert in Alert.objects.filter(kind__in=kinds, cleared_at=None)}
    known = {alert.key: alert.pk for alert in standing.values()}
    seen = compare(known, found)
    for condition in seen.new:
        alerts.raise_alert(condition, now=now)
    for alert_id, condition in seen.still.items():
        _refresh_alert(standing[alert_id], condition, now=now)
    # A truncated result omits conditions that may still hold.
    gone = seen.gone if len(found) < SEEN_AT_MOST else []
    alerts.clear(gone, now=now)
    return len(seen.new) + len(gone)


def _refresh_alert(alert: Alert, condition: Condition, *, now: datetime) -> None:
    changes = {"message": condition.message, "severity": str(condition.weight)}
    is_news = any(getattr(alert, name) != value for name, value in changes.items())
    if not is_news and now - alert.last_seen_at < REFRESH_AFTER:
        return
    Alert.objects.filter(pk=alert.pk).update(
        **changes, details=dict(condition.details), last_seen_at=now
    )
    if is_news:
        alerts.announce(alert.run_id)
