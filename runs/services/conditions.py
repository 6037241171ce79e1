"""Look every few seconds at what is wrong, raise what is new and let go what is over.

Nobody who breaks something has to remember to say when it is mended: an alert stands for what the
tables say now, and a look that dies at any line is made up for by the next one. Apps above this
one register what they can see in ``AppConfig.ready``.
"""

import logging
from collections.abc import Callable, Collection
from datetime import datetime, timedelta
from typing import Final

from django.db import connection, transaction

from runs.core.alerts import SEEN_AT_MOST, AlertKind, Condition, compare
from runs.models import Alert
from runs.services import alerts, webhooks

logger = logging.getLogger(__name__)

# Writing down that a condition still holds says little, so it is done seldom.
SEEN_AGAIN_AFTER: Final = timedelta(seconds=30)
Look = Callable[[datetime], list[Condition]]

_looks: dict[frozenset[AlertKind], Look] = {}


def register(kinds: Collection[AlertKind], look: Look) -> None:
    """Call ``look(now)`` for the conditions of `kinds` that hold, SEEN_AT_MOST of them."""
    _looks[frozenset(kinds)] = look


@transaction.atomic
def watch(*, now: datetime) -> int:
    """Look once; return how many alerts were raised or cleared. Two looks at once are one.

    What cannot be looked at stays as it was said to be.
    """
    if not _alone():
        return 0
    changed = 0
    for kinds, look in _looks.items():
        try:
            with transaction.atomic():
                changed += _settle(kinds, look(now), now=now)
        except Exception:
            logger.exception("%s cannot be looked at", ", ".join(sorted(kinds)))
    webhooks.tell_held_back(now=now)
    return changed


def _alone() -> bool:
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
        _see_again(standing[alert_id], condition, now=now)
    # Of so many the look has left some out: what it does not show may hold all the same.
    gone = seen.gone if len(found) < SEEN_AT_MOST else []
    alerts.clear(gone, now=now)
    return len(seen.new) + len(gone)


def _see_again(alert: Alert, condition: Condition, *, now: datetime) -> None:
    said = {"message": condition.message, "severity": str(condition.weight)}
    is_news = any(getattr(alert, name) != value for name, value in said.items())
    if not is_news and now - alert.last_seen_at < SEEN_AGAIN_AFTER:
        return
    Alert.objects.filter(pk=alert.pk).update(
        **said, details=dict(condition.details), last_seen_at=now
    )
    if is_news:
        alerts.announce(alert.run_id)
