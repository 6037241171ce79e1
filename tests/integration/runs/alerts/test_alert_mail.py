"""Alert notifications by mail, through a real mail server."""

import socket
from collections.abc import Iterator
from datetime import datetime, timedelta
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session
from pytest_django import Settings

from runs.alerts.models import AlertDelivery
from runs.alerts.queries.alert_lists import channels
from runs.alerts.rules import AlertKind, Condition
from runs.alerts.services import alerts, webhooks
from tests.factories import NOON, make_run

pytestmark = pytest.mark.django_db


class Mailbox:
    """Messages received by a mail server that first rejects a number of attempts."""

    def __init__(self) -> None:
        self.messages: list[EmailMessage] = []
        self.refusals = 0

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802, ARG002 the library's names
        if self.refusals:
            self.refusals -= 1
            return "451 come again later"
        content = envelope.content
        assert isinstance(content, bytes)
        self.messages.append(message_from_bytes(content, policy=policy.default))  # type: ignore[arg-type]
        return "250 taken"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@pytest.fixture
def mailbox(settings: Settings) -> Iterator[Mailbox]:
    """An external mail server."""
    box = Mailbox()
    there = Controller(box, hostname="127.0.0.1", port=free_port())
    there.start()
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST = "127.0.0.1"
    settings.EMAIL_PORT = there.port
    settings.ROLLDECK_ALERT_EMAILS = ["ops@example.org"]
    settings.DEFAULT_FROM_EMAIL = "Rolldeck <server@example.org>"
    yield box
    there.stop()


def raise_one(**fields: Any) -> int:
    given: dict[str, Any] = {"kind": AlertKind.DISK_LOW, "message": "little room", **fields}
    return alerts.raise_alert(Condition(**given), now=NOON)


def send(*, at: datetime = NOON) -> int:
    return webhooks.send_due(clock=lambda: at)


def test_an_email_has_problem_run_and_remedy(mailbox: Mailbox, settings: Settings) -> None:
    settings.ROLLDECK_DEPLOYMENT = "lab"
    run = make_run(name="pole")
    alert = raise_one(kind=AlertKind.RUN_STALLED, run_id=run.pk, message="nothing came into pole")

    assert send() == 1

    (message,) = mailbox.messages
    assert (message["To"], message["From"]) == ("ops@example.org", "Rolldeck <server@example.org>")
    assert message["Subject"] == "[lab] warning raised: nothing came into pole"
    text = message.get_content()
    assert f"/alerts?alert={alert}" in text
    assert "Check that its fleet" in text
    delivery = AlertDelivery.objects.get()
    assert (delivery.state, delivery.target) == ("delivered", "mailto:ops@example.org")
    assert delivery.last_took_ms == 0


def test_emails_of_one_alert_are_one_thread(mailbox: Mailbox) -> None:
    alert = raise_one()
    alerts.acknowledge(alert_id=alert, actor="user:ada", reason="on it", now=NOON)
    assert send() == 2

    first, then = mailbox.messages
    assert first["References"] == then["References"]
    assert first["Message-ID"] != then["Message-ID"]
    assert "acknowledged by ada: on it" in then.get_content()


def test_a_refused_email_is_retried_unchanged(mailbox: Mailbox) -> None:
    mailbox.refusals = 1
    raise_one()

    assert send() == 0
    delivery = AlertDelivery.objects.get()
    assert (delivery.state, delivery.attempts) == ("waiting", 1)
    assert "come again later" in delivery.last_error
    assert send(at=NOON + timedelta(seconds=5)) == 1
    assert [message["Message-ID"] for message in mailbox.messages] == [
        f"<rolldeck-delivery-{delivery.pk}@127.0.0.1>"
    ]


def test_text_of_a_run_adds_no_email_header(mailbox: Mailbox) -> None:
    raise_one(message="first line\r\nBcc: everybody@example.org\u202e")
    assert send() == 1

    (message,) = mailbox.messages
    assert message["Bcc"] is None
    assert "U+202E" in message["Subject"]


def test_a_test_email_reports_its_delivery(mailbox: Mailbox) -> None:
    (channel,) = channels()
    webhooks.send_test(webhook=channel.fingerprint, actor="user:ada", now=NOON)
    assert send() == 1

    (message,) = mailbox.messages
    assert "test notification, no action required" in message["Subject"]
    assert message["References"] is None


def test_email_may_be_limited_to_errors_and_is_retried(
    settings: Settings, mailbox: Mailbox
) -> None:
    settings.ROLLDECK_ALERT_EMAIL_LEVEL = "error"
    raise_one(kind=AlertKind.LEASE_LAPSED, message="a batch came back")
    assert not AlertDelivery.objects.exists()

    raise_one()
    settings.EMAIL_PORT = 1
    assert send() == 0
    assert AlertDelivery.objects.get().state == "waiting"
    assert mailbox.messages == []
