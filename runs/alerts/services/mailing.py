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
    letter_id: str
    """Message-ID, the same in every attempt."""
    thread: str
    """Message-ID of the thread; empty for none."""


def mail(to: str, letter: AlertEmail) -> None:
    """Send an email message to one address.

    Raises:
        NotDelivered: If the mail server is unavailable or rejects it.
    """
    headers = {"Message-ID": letter.letter_id, "Auto-Submitted": "auto-generated"}
    if letter.thread:
        headers |= {"References": letter.thread, "In-Reply-To": letter.thread}
    try:
        EmailMessage(letter.subject, letter.text, to=[to], headers=headers).send()
    except (smtplib.SMTPException, OSError) as error:
        raise NotDelivered(str(error) or type(error).__name__) from error
