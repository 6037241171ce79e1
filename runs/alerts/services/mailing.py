"""Send email through the configured mail server."""

import smtplib
from typing import NamedTuple

from django.core.mail import EmailMessage

from runs.alerts.services.posting import NotDelivered


class AlertEmail(NamedTuple):
    """An email message and its ids."""

    subject: str
    """A single line."""
    text: str
    message_id: str
    """Message-ID, the same in every attempt."""
    thread: str
    """Message-ID of the thread; empty for none."""


def mail(to: str, message: AlertEmail) -> None:
    """Send an email message to one address.

    Raises:
        NotDelivered: If the mail server is unavailable or rejects it.
    """
    headers = {"Message-ID": message.message_id, "Auto-Submitted": "auto-generated"}
    if message.thread:
        headers |= {"References": message.thread, "In-Reply-To": message.thread}
    try:
        EmailMessage(message.subject, message.text, to=[to], headers=headers).send()
    except (smtplib.SMTPException, OSError) as error:
        raise NotDelivered(str(error) or type(error).__name__) from error
