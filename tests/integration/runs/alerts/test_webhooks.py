"""Webhooks receive every change, signed, with retries until they confirm."""

import hashlib
import hmac
import socket
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from pytest_django import Settings

from runs.alerts.models import AlertDelivery
from runs.alerts.rules import AlertKind, Condition, fingerprint
from runs.alerts.schemas import AlertMessage
from runs.alerts.services import alerts, webhooks
from runs.events.models import RunEvent
from tests.factories import NOON, make_run
from tests.webhook_receiver import Receiver, receiver

pytestmark = pytest.mark.django_db


@pytest.fixture
def signing(settings: Settings) -> Settings:
    settings.ROLLDECK_ALERT_WEBHOOK_SECRET = "between us"
    return settings


def raise_one(**fields: Any) -> int:
    given: dict[str, Any] = {"kind": AlertKind.DISK_LOW, "message": "little room", **fields}
    return alerts.raise_alert(Condition(**given), now=NOON)


def send(*, at: datetime = NOON) -> int:
    return webhooks.send_due(clock=lambda: at)


def send_test(there: Receiver, *, at: datetime = NOON) -> AlertDelivery:
    return webhooks.send_test(
        webhook=fingerprint(there.url), actor="user:ada", reason="new key", now=at
    )


def test_a_webhook_that_fails_twice_is_called_a_third_time(signing: Settings) -> None:
    with receiver(500, 503, 200) as there:
        signing.ROLLDECK_ALERT_WEBHOOKS = [there.url]
        raise_one()

        assert [send(), send()] == [0, 0]  # the second pass finds nothing due
        assert send(at=NOON + timedelta(seconds=5)) == 0
        assert send(at=NOON + timedelta(seconds=20)) == 1
        assert send(at=NOON + timedelta(hours=9)) == 0

    delivery = AlertDelivery.objects.get()
    assert (delivery.state, delivery.attempts, delivery.last_status) == ("delivered", 3, 200)
    assert len(there.requests) == 3
    assert len({body for _, body in there.requests}) == 1
    assert "a-secret-path" not in delivery.target


def test_webhook_messages_are_signed_and_complete(signing: Settings) -> None:
    run = make_run(name="pole")
    with receiver() as there:
        signing.ROLLDECK_ALERT_WEBHOOKS = [there.url]
        alert = raise_one(kind=AlertKind.RUN_STALLED, run_id=run.pk, message="nothing came")
        send()

    (headers, body), *_ = there.requests
    message = msgspec.json.decode(body, type=AlertMessage)
    assert (message.change, message.at, message.alert.run) == ("raised", NOON, "pole")
    assert message.url == f"{signing.ROLLDECK_PUBLIC_URL}/alerts?alert={alert}"
    assert "warning raised: nothing came" in message.text
    when, _, signed = headers["X-Rolldeck-Signature"].partition(",v1=")
    expected = hmac.new(b"between us", f"{when[2:]}.".encode() + body, hashlib.sha256).hexdigest()
    assert (when, signed) == (f"t={int(NOON.timestamp())}", expected)
    assert headers["X-Rolldeck-Delivery"] == str(AlertDelivery.objects.get().pk)


def test_each_change_is_sent_to_each_webhook_once(signing: Settings) -> None:
    with receiver() as one, receiver() as other:
        signing.ROLLDECK_ALERT_WEBHOOKS = [one.url, other.url]
        alert = raise_one()
        raise_one()
        for _ in range(2):
            alerts.acknowledge(alert_id=alert, actor="user:ada", now=NOON)
        alerts.clear([alert], now=NOON)
        alerts.clear([alert], now=NOON)
        assert send() == 6

    changes = [msgspec.json.decode(body)["change"] for _, body in one.requests]
    assert changes == ["raised", "acknowledged", "resolved"]
    assert [body for _, body in one.requests] == [body for _, body in other.requests]


def test_warnings_are_not_sent_to_webhooks_for_errors(signing: Settings) -> None:
    signing.ROLLDECK_ALERT_WEBHOOKS = ["https://hooks.example.org/"]
    signing.ROLLDECK_ALERT_WEBHOOK_LEVEL = "error"
    raise_one(kind=AlertKind.LEASE_LAPSED)
    assert not AlertDelivery.objects.exists()

    raise_one(kind=AlertKind.DISK_LOW)
    assert AlertDelivery.objects.get().target == "https://hooks.example.org"


def test_a_redirect_is_not_followed(signing: Settings) -> None:
    with receiver(302) as there:
        signing.ROLLDECK_ALERT_WEBHOOKS = [there.url]
        raise_one()
        send()

    delivery = AlertDelivery.objects.get()
    assert (delivery.state, delivery.last_status, len(there.requests)) == ("waiting", 302, 1)


def test_a_webhook_without_an_answer_is_abandoned(signing: Settings) -> None:
    with receiver() as there:
        url = there.url  # the receiver has stopped
    signing.ROLLDECK_ALERT_WEBHOOKS = [url]
    raise_one()

    for hour in range(12):
        send(at=NOON + timedelta(hours=2 * hour))

    delivery = AlertDelivery.objects.get()
    assert (delivery.state, delivery.attempts) == ("given up", 8)
    assert delivery.last_error


def test_a_webhook_that_was_removed_from_the_settings_is_not_called(signing: Settings) -> None:
    signing.ROLLDECK_ALERT_WEBHOOKS = ["https://hooks.example.org/"]
    raise_one()
    signing.ROLLDECK_ALERT_WEBHOOKS = []
    send()

    assert AlertDelivery.objects.get().state == "given up"


@pytest.mark.parametrize("host", ["hooks..example.org", f"{'a' * 64}.example.org"])
def test_a_host_name_that_does_not_resolve_is_abandoned(signing: Settings, host: str) -> None:
    signing.ROLLDECK_ALERT_WEBHOOKS = [f"http://{host}/"]
    raise_one()
    for hour in range(12):
        send(at=NOON + timedelta(hours=2 * hour))

    assert AlertDelivery.objects.get().state == "given up"


def test_a_silent_webhook_has_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "TIMEOUT_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        with pytest.raises(webhooks.NotDelivered):
            webhooks.post(url, b"{}")


def test_a_webhook_test_is_delivered_like_an_alert_and_audited(signing: Settings) -> None:
    with receiver() as there, receiver() as other:
        signing.ROLLDECK_ALERT_WEBHOOKS = [other.url, there.url]
        signing.ROLLDECK_ALERT_WEBHOOK_LEVEL = "error"  # tests ignore the level
        sample = send_test(there)
        assert sample.state == "waiting"
        ticks = iter([NOON, NOON, NOON + timedelta(milliseconds=412), NOON + timedelta(days=1)])
        assert webhooks.send_due(clock=lambda: next(ticks)) == 1

    sample.refresh_from_db()
    assert (sample.state, sample.last_status, sample.last_took_ms) == ("delivered", 200, 412)
    ((headers, body),), unheard = there.requests, other.requests
    assert unheard == []
    message = msgspec.json.decode(body, type=AlertMessage)
    assert (message.change, message.alert.id, message.alert.state) == ("test", 0, "resolved")
    assert "test notification" in message.text
    assert message.url == f"{signing.ROLLDECK_PUBLIC_URL}/settings"
    signed = f"{int(NOON.timestamp())}.".encode() + body
    expected = hmac.new(b"between us", signed, hashlib.sha256).hexdigest()
    assert headers["X-Rolldeck-Signature"].endswith(f",v1={expected}")

    event = RunEvent.objects.get(kind="webhook_tested")
    assert (event.run, event.actor, event.reason) == (None, "user:ada", "new key")
    assert "a-secret-path" not in event.message + str(event.details)


@pytest.mark.parametrize(("status", "expected"), [(500, "status 500"), (302, "status 302")])
def test_a_webhook_test_is_tried_once_and_reports_the_answer(
    signing: Settings, status: int, expected: str
) -> None:
    with receiver(status) as there:
        signing.ROLLDECK_ALERT_WEBHOOKS = [there.url]
        sample = send_test(there)
        assert [send(), send(at=NOON + timedelta(hours=3))] == [0, 0]

    sample.refresh_from_db()
    assert (sample.state, sample.attempts, len(there.requests)) == ("given up", 1, 1)
    assert (sample.last_status, sample.last_error) == (status, expected)


def test_a_webhook_gets_one_test_in_ten_seconds_from_all_callers(signing: Settings) -> None:
    with receiver() as there, receiver() as other:
        signing.ROLLDECK_ALERT_WEBHOOKS = [there.url, other.url]
        send_test(there)
        with pytest.raises(webhooks.TestSentRecently):
            send_test(there, at=NOON + timedelta(seconds=9))
        send_test(other)
        send_test(there, at=NOON + timedelta(seconds=10))

    assert AlertDelivery.objects.filter(change="test").count() == 3


def test_only_configured_webhooks_can_be_tested(signing: Settings) -> None:
    with receiver() as there, pytest.raises(webhooks.WebhookNotFound):
        send_test(there)
