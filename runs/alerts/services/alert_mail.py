"""Format alert changes as email messages."""

from urllib.parse import urlsplit

from runs.alerts.schemas.alerts import AlertMessage
from runs.alerts.services.mailing import AlertEmail
from web.rules.texts import visible

_SUBJECT_LENGTH = 180


def email_message(message: AlertMessage, *, delivery: int, place: str) -> AlertEmail:
    """Return the email message of an alert's change; messages of one alert form one thread.

    Args:
        message: Webhook body of the same change.
        delivery: Number of the delivery; a retry sends the same message.
        place: Name of the deployment; empty for its URL.
    """
    alert = message.alert
    host = urlsplit(message.platform_url).hostname or "rolldeck"
    lines = [
        f"{alert.title}: {visible(alert.message)}",
        f"{alert.severity}, {message.change} {message.at:%Y-%m-%d %H:%M:%S} UTC",
        *([f"run {alert.run}"] if alert.run else []),
        *_lines(message),
        "",
        visible(alert.advice),
        "",
        message.url,
    ]
    subject = (
        f"[{place or message.platform_url}] {alert.severity} {message.change}: {alert.message}"
    )
    return AlertEmail(
        subject=" ".join(visible(subject).split())[:_SUBJECT_LENGTH],
        text="\n".join(lines) + "\n",
        message_id=f"<rolldeck-delivery-{delivery}@{host}>",
        thread=f"<rolldeck-alert-{alert.id}@{host}>" if alert.id else "",
    )


def _lines(message: AlertMessage) -> list[str]:
    alert = message.alert
    who, why = {
        "acknowledged": (alert.acknowledged_by, alert.acknowledged_reason),
        "resolved": (alert.resolved_by, alert.resolved_reason),
    }.get(message.change, ("", ""))
    if not who:
        return []
    return [f"{message.change} by {visible(who)}" + (f": {visible(why)}" if why else "")]
