"""Tell webhooks what became of alerts, and try again until they have heard it.

What is to be told is written down in the transaction that changes the alert, so it is told exactly
when the change is there. Sending is a job of its own: whoever sends has claimed the delivery and
put its next attempt off, so one that dies costs a wait and nothing is told twice at once.
"""

import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

import msgspec
from django.conf import settings
from django.db import transaction
from django.db.models import F

from runs.core import webhooks as rules
from runs.core.alerts import Severity
from runs.live import posting
from runs.models import Alert, AlertDelivery
from runs.selectors.alerts import alert_row
from runs.wire.alerts import AlertMessage

logger = logging.getLogger(__name__)

SEND_FOR: Final = timedelta(seconds=20)
"""How long one pass begins further deliveries."""
# Longer than a job may take: nobody else takes the delivery while this one is at it.
CLAIMED_FOR: Final = timedelta(seconds=90)
_WEIGHTS: Final = list(Severity)


def tell(alert: Alert, change: str, *, now: datetime) -> int:
    """Write down that each webhook is to hear of a change; return how many there are."""
    urls = settings.ROLLDECK_ALERT_WEBHOOKS
    least = Severity(settings.ROLLDECK_ALERT_WEBHOOK_LEVEL)
    if not urls or _WEIGHTS.index(Severity(alert.severity)) < _WEIGHTS.index(least):
        return 0
    body = msgspec.json.encode(_message(alert, change, now=now)).decode()
    deliveries = AlertDelivery.objects.bulk_create(
        AlertDelivery(
            alert=alert,
            change=change,
            target=rules.label(url),
            target_fingerprint=rules.fingerprint(url),
            body=body,
            created_at=now,
            next_attempt_at=now,
        )
        for url in urls
    )
    return len(deliveries)


def _message(alert: Alert, change: str, *, now: datetime) -> AlertMessage:
    row, deck = alert_row(alert, names={}), settings.ROLLDECK_PUBLIC_URL
    where = settings.ROLLDECK_DEPLOYMENT or deck
    return AlertMessage(
        change=change,  # type: ignore[arg-type]
        at=now,
        deck=deck,
        text=f"[{where}] {row.severity} {change}: {row.message}",
        url=f"{deck}/alerts?alert={row.id}",
        alert=row,
    )


def send_due(*, clock: Callable[[], datetime]) -> int:
    """Send what is due, one after the other, for a while; return how many were delivered."""
    delivered, until = 0, clock() + SEND_FOR
    while (now := clock()) < until:
        delivery = _claim(now=now)
        if delivery is None:
            break
        delivered += _send(delivery, now=now, clock=clock)
    return delivered


@transaction.atomic
def _claim(*, now: datetime) -> AlertDelivery | None:
    due = AlertDelivery.objects.select_for_update(skip_locked=True).filter(
        state="waiting", next_attempt_at__lte=now
    )
    delivery = due.order_by("next_attempt_at", "pk").first()
    if delivery is not None:
        AlertDelivery.objects.filter(pk=delivery.pk).update(
            attempts=F("attempts") + 1, next_attempt_at=now + CLAIMED_FOR
        )
        delivery.attempts += 1
    return delivery


def _send(delivery: AlertDelivery, *, now: datetime, clock: Callable[[], datetime]) -> bool:
    url = _url_of(delivery)
    if url is None:
        return _settle(delivery, "given up", error="no such webhook is set any more", now=now)
    body = delivery.body.encode()
    signature = rules.signature(
        settings.ROLLDECK_ALERT_WEBHOOK_SECRET, body, at_seconds=int(now.timestamp())
    )
    headers = {"X-Rolldeck-Delivery": str(delivery.pk), "X-Rolldeck-Signature": signature}
    try:
        status = posting.post(
            url,
            body,
            headers=headers,
            may_be_private=settings.ROLLDECK_ALERT_PRIVATE_WEBHOOKS,
        )
    except posting.AddressNotPublic as error:
        return _settle(delivery, "given up", error=str(error), now=clock())
    except posting.NotHeard as error:
        return _put_off(delivery, error=str(error), now=clock())
    if 200 <= status < 300:
        return _settle(delivery, "delivered", status=status, now=clock())
    return _put_off(delivery, error="", status=status, now=clock())


def _url_of(delivery: AlertDelivery) -> str | None:
    urls = settings.ROLLDECK_ALERT_WEBHOOKS
    return next((u for u in urls if rules.fingerprint(u) == delivery.target_fingerprint), None)


def _settle(
    delivery: AlertDelivery,
    state: str,
    *,
    error: str = "",
    status: int | None = None,
    now: datetime,
) -> bool:
    AlertDelivery.objects.filter(pk=delivery.pk, state="waiting").update(
        state=state, last_error=error, last_status=status, settled_at=now
    )
    if state != "delivered":
        logger.warning("alert %d is not told to %s: %s", delivery.alert_id, delivery.target, error)
    return state == "delivered"


def _put_off(
    delivery: AlertDelivery, *, error: str, status: int | None = None, now: datetime
) -> bool:
    wait = rules.wait_after(delivery.attempts)
    said = error or f"it answered {status}"
    if wait is None:
        return _settle(delivery, "given up", error=said, status=status, now=now)
    AlertDelivery.objects.filter(pk=delivery.pk, state="waiting").update(
        last_error=said, last_status=status, next_attempt_at=now + wait
    )
    return False
