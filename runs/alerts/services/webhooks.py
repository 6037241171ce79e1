"""Deliver alert changes to webhooks and mailboxes, with retries.

Addresses come from the settings, so only the operator of the server chooses them. Redirects,
proxies from the environment and cookies are not followed.

A delivery is stored in the transaction that changes the alert, so it exists exactly when the change
does. A separate job sends deliveries. It claims each one by postponing its next attempt, so a
crashed sender costs a wait and no delivery is sent twice concurrently.
"""

import logging
import smtplib
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
import msgspec
from django.conf import settings
from django.core.mail import EmailMessage
from django.db import connection, transaction
from django.db.models import F

from runs.alerts import rules as alerts_rules
from runs.alerts.models import Alert, AlertDelivery
from runs.alerts.queries.alert_lists import (
    MAIL,
    Channel,
    alert_row,
    channel_of,
    channels,
    lasting,
    snooze_of,
)
from runs.alerts.rules import AlertKind, AlertState, Change, DeliveryState, Severity
from runs.alerts.schemas import AlertMessage, AlertRow
from runs.events.services import record_event
from web.rules.errors import NotFound, TooManyRequests
from web.rules.texts import visible

logger = logging.getLogger(__name__)


# Send one notification of an alert: a POST to a webhook, or a message to a mailbox.

TIMEOUT_SECONDS: Final = 5.0
_USER_AGENT: Final = "Rolldeck"
_SUBJECT_LENGTH: Final = 180


class NotDelivered(Exception):
    """The message was not delivered, or the response timed out."""


def post(url: str, body: bytes, *, headers: Mapping[str, str] | None = None) -> int:
    """Post JSON and return the response status; the body of the response is not read.

    Raises:
        NotDelivered: If there is no response within :data:`TIMEOUT_SECONDS`.
    """
    own = {"Content-Type": "application/json", "User-Agent": _USER_AGENT, "Connection": "close"}
    try:
        with (
            httpx.Client(trust_env=False, timeout=TIMEOUT_SECONDS) as client,
            client.stream("POST", url, content=body, headers={**own, **(headers or {})}) as answer,
        ):
            return answer.status_code
    # ValueError: a host name that cannot be encoded.
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
        raise NotDelivered(str(error) or type(error).__name__) from error


def mail(to: str, message: AlertMessage, *, delivery: int, place: str) -> None:
    """Send the email message of an alert's change; messages of one alert form one thread.

    Args:
        to: Mail address.
        message: Webhook body of the same change.
        delivery: Number of the delivery; a retry sends the same Message-ID.
        place: Name of the deployment; empty for its URL.

    Raises:
        NotDelivered: If the mail server is unavailable or rejects the message.
    """
    alert = message.alert
    host = urlsplit(message.platform_url).hostname or "rolldeck"
    headers = {
        "Message-ID": f"<rolldeck-delivery-{delivery}@{host}>",
        "Auto-Submitted": "auto-generated",
    }
    if alert.id:
        thread = f"<rolldeck-alert-{alert.id}@{host}>"
        headers |= {"References": thread, "In-Reply-To": thread}
    subject = (
        f"[{place or message.platform_url}] {alert.severity} {message.change}: {alert.message}"
    )
    who, why = {
        "acknowledged": (alert.acknowledged_by, alert.acknowledged_reason),
        "resolved": (alert.resolved_by, alert.resolved_reason),
    }.get(message.change, ("", ""))
    by = f"{message.change} by {visible(who)}" + (f": {visible(why)}" if why else "")
    lines = [
        f"{alert.title}: {visible(alert.message)}",
        f"{alert.severity}, {message.change} {message.at:%Y-%m-%d %H:%M:%S} UTC",
        *([f"run {alert.run}"] if alert.run else []),
        *([by] if who else []),
        "",
        visible(alert.advice),
        "",
        message.url,
    ]
    email = EmailMessage(
        " ".join(visible(subject).split())[:_SUBJECT_LENGTH],
        "\n".join(lines) + "\n",
        to=[to],
        headers=headers,
    )
    try:
        email.send()
    except (smtplib.SMTPException, OSError) as error:
        raise NotDelivered(str(error) or type(error).__name__) from error


# Deliver alert changes to webhooks and mailboxes, with retries.

SEND_FOR: Final = timedelta(seconds=20)
"""Time during which one pass starts deliveries."""
# Longer than a job may take, so that no other sender takes the delivery.
CLAIMED_FOR: Final = timedelta(seconds=90)
_TEST_LOCK: Final = "SELECT pg_advisory_xact_lock(hashtext('rolldeck.webhook'), hashtext(%s))"


class WebhookNotFound(NotFound):
    """No such channel is configured."""


class TestSentRecently(TooManyRequests):
    """A test delivery was sent to the channel too recently."""

    title = "A sample was sent just now"
    retry_after_seconds = int(alerts_rules.TEST_INTERVAL.total_seconds())


def queue_deliveries(alert: Alert, change: Change, *, now: datetime) -> int:
    """Store a delivery of an alert's change for each channel; return their number.

    Snoozed alerts send nothing. An alert raised while snoozed is held back: it is delivered when
    the snooze ends if it is still open. Its later changes are not sent before that.
    """
    is_snoozed = snooze_of(alert, lasting(now=now)) is not None
    if is_snoozed and change == "raised":
        Alert.objects.filter(pk=alert.pk).update(is_held_back=True)
    if is_snoozed or alert.is_held_back:
        return 0
    hearing = [one for one in channels() if one.receives_severity(alert.severity)]
    message = _message(alert_row(alert, names={}), change, now=now)
    deliveries = AlertDelivery.objects.bulk_create(
        _delivery(one, message, alert=alert, now=now) for one in hearing
    )
    return len(deliveries)


def deliver_held_back(*, now: datetime) -> int:
    """Deliver open alerts raised during a snooze that has ended; return their number."""
    known = list(lasting(now=now))
    waiting = Alert.objects.select_related("run").filter(is_held_back=True, state=AlertState.OPEN)
    due = [alert for alert in waiting if snooze_of(alert, known) is None]
    for alert in due:
        Alert.objects.filter(pk=alert.pk).update(is_held_back=False)
        alert.is_held_back = False
        queue_deliveries(alert, "raised", now=now)
    return len(due)


@transaction.atomic
def send_test(*, webhook: str, actor: str, reason: str = "", now: datetime) -> AlertDelivery:
    """Queue a test delivery to a channel.

    It is signed and checked like every delivery, and sent once.

    Raises:
        WebhookNotFound: If no channel has this fingerprint.
        TestSentRecently: If one was sent within TEST_INTERVAL.
    """
    channel = channel_of(webhook)
    if channel is None:
        raise WebhookNotFound(f"webhook {webhook} not found")
    with connection.cursor() as cursor:
        cursor.execute(_TEST_LOCK, [webhook])
    lately = AlertDelivery.objects.filter(
        change="test", target_fingerprint=webhook, created_at__gt=now - alerts_rules.TEST_INTERVAL
    )
    if lately.exists():
        seconds = alerts_rules.TEST_INTERVAL.total_seconds()
        raise TestSentRecently(f"a test was sent to it within the last {seconds:.0f} seconds")
    sample = AlertRow(  # resolved, so that receivers do not keep it open
        id=0,
        kind=AlertKind.DISK_LOW,
        title="Test notification",
        advice="No action is required.",
        severity=Severity.WARNING,
        state=AlertState.RESOLVED,
        run=None,
        run_uid=None,
        subject="",
        metric="",
        message="test notification, no action required",
        first_seen_at=now,
        last_seen_at=now,
        times_seen=1,
        cleared_at=now,
        acknowledged_at=None,
        acknowledged_by="",
        acknowledged_reason="",
        resolved_at=now,
        resolved_by="",
        resolved_reason="",
        is_snoozed=False,
        snoozed_until=None,
    )
    delivery = _delivery(channel, _message(sample, "test", now=now), alert=None, now=now)
    delivery.save()
    record_event(
        run_id=None,
        kind="webhook_tested",
        message=f"sent a test to {delivery.target}",
        actor=actor,
        reason=reason,
        details={"delivery": delivery.pk, "webhook": webhook},
        now=now,
    )
    return delivery


def _delivery(
    channel: Channel, message: AlertMessage, *, alert: Alert | None, now: datetime
) -> AlertDelivery:
    return AlertDelivery(
        alert=alert,
        change=message.change,
        target=channel.label,
        target_fingerprint=channel.fingerprint,
        body=msgspec.json.encode(message).decode(),
        created_at=now,
        next_attempt_at=now,
    )


def _message(row: AlertRow, change: Change, *, now: datetime) -> AlertMessage:
    platform_url = settings.ROLLDECK_PUBLIC_URL
    where = settings.ROLLDECK_DEPLOYMENT or platform_url
    return AlertMessage(
        change=change,
        at=now,
        platform_url=platform_url,
        text=alerts_rules.chat_text(f"[{where}] {row.severity} {change}: {row.message}"),
        url=f"{platform_url}/alerts?alert={row.id}" if row.id else f"{platform_url}/settings",
        alert=row,
    )


def send_due(*, clock: Callable[[], datetime]) -> int:
    """Send due deliveries one by one for :data:`SEND_FOR`; return the number delivered."""
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
    """Attempt a claimed delivery, and store the outcome; return whether it was delivered."""
    channel = channel_of(delivery.target_fingerprint)
    status: int | None = None  # mail has no status
    problem = ""
    if channel is None:
        problem = "the channel is no longer configured"
    else:
        try:
            if channel.is_mail:
                mail(
                    channel.address.removeprefix(MAIL),
                    msgspec.json.decode(delivery.body, type=AlertMessage),
                    delivery=delivery.pk,
                    place=settings.ROLLDECK_DEPLOYMENT,
                )
            else:
                body = delivery.body.encode()
                signature = alerts_rules.signature(
                    settings.ROLLDECK_ALERT_WEBHOOK_SECRET, body, at_seconds=int(now.timestamp())
                )
                headers = {
                    "X-Rolldeck-Delivery": str(delivery.pk),
                    "X-Rolldeck-Signature": signature,
                }
                status = post(channel.address, body, headers=headers)
                if not 200 <= status < 300:
                    problem = f"status {status}"
        except NotDelivered as error:
            problem = str(error)
    ended_at, took_ms = now, None
    if channel is not None:
        ended_at = clock()
        took_ms = max((ended_at - now) // timedelta(milliseconds=1), 0)
    outcome: dict[str, Any] = {
        "last_error": problem,
        "last_status": status,
        "last_took_ms": took_ms,
    }
    # A test is not retried: its sender sees the result.
    is_final = not problem or channel is None or delivery.change == "test"
    wait = None if is_final else alerts_rules.wait_after(delivery.attempts)
    if wait is not None:
        outcome["next_attempt_at"] = ended_at + wait
    else:
        state: DeliveryState = "given up" if problem else "delivered"
        outcome |= {"state": state, "settled_at": ended_at}
    AlertDelivery.objects.filter(pk=delivery.pk, state="waiting").update(**outcome)
    if problem and wait is None:
        text = "delivery to %s of alert %s (%s) failed: %s"
        logger.warning(text, delivery.target, delivery.alert_id, delivery.change, problem)
    return not problem
