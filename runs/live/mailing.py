"""Hand a letter to the mail server of the settings."""

import smtplib
from typing import NamedTuple

from django.core.mail import EmailMessage

from runs.live.posting import NotHeard


class Letter(NamedTuple):
    """What is to be read, and what it is known by."""

    subject: str
    """One line."""
    text: str
    letter_id: str
    """Its Message-ID, the same at every attempt."""
    thread: str
    """What it belongs to, another Message-ID; empty for nothing."""


def mail(to: str, letter: Letter) -> None:
    """Send a letter to one address.

    Raises:
        NotHeard: If the mail server is away, or does not take it.
    """
    headers = {"Message-ID": letter.letter_id, "Auto-Submitted": "auto-generated"}
    if letter.thread:
        headers |= {"References": letter.thread, "In-Reply-To": letter.thread}
    try:
        EmailMessage(letter.subject, letter.text, to=[to], headers=headers).send()
    except (smtplib.SMTPException, OSError) as error:
        raise NotHeard(str(error) or type(error).__name__) from error
