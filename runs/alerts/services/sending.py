"""Send one notification of an alert: a POST to a webhook, or a message to a mailbox.

Addresses come from the settings, so only the operator of the server chooses them. Redirects,
proxies from the environment and cookies are not followed.
"""

import smtplib
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

import httpx
from django.core.mail import EmailMessage

from runs.alerts.schemas import AlertMessage
from web.rules.texts import visible

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
    lines = [
        f"{alert.title}: {visible(alert.message)}",
        f"{alert.severity}, {message.change} {message.at:%Y-%m-%d %H:%M:%S} UTC",
        *([f"run {alert.run}"] if alert.run else []),
        *_actor_line(message),
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


def _actor_line(message: AlertMessage) -> list[str]:
    alert = message.alert
    who, why = {
        "acknowledged": (alert.acknowledged_by, alert.acknowledged_reason),
        "resolved": (alert.resolved_by, alert.resolved_reason),
    }.get(message.change, ("", ""))
    if not who:
        return []
    return [f"{message.change} by {visible(who)}" + (f": {visible(why)}" if why else "")]
