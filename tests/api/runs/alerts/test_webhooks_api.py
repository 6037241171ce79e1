"""List webhooks without their secrets, and test them as an operator."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from runs.alerts.models import AlertDelivery
from runs.alerts.rules import fingerprint
from runs.alerts.services import webhooks
from tests.factories import NOON, make_user

pytestmark = pytest.mark.django_db

URL = "https://hooks.example.org/services/a-secret-path"


@pytest.fixture
def olga(settings: Settings) -> Client:
    settings.ROLLDECK_ALERT_WEBHOOKS = [URL]
    settings.ROLLDECK_ALERT_WEBHOOK_SECRET = "between us"
    client = Client()
    client.force_login(make_user(username="olga", role="operator"))
    return client


def post(client: Client, webhook: str, **body: Any) -> Any:
    return client.post(f"/api/v1/webhooks/{webhook}/test", body, content_type="application/json")


def test_configured_webhooks_are_listed_without_secrets(olga: Client) -> None:
    answer = olga.get("/api/v1/webhooks")

    (row,) = answer.json()["results"]
    assert row == {
        "id": fingerprint(URL),
        "channel": "webhook",
        "target": "https://hooks.example.org",
        "is_signed": True,
        "least_severity": "warning",
        "last_test": None,
    }
    assert b"secret" not in answer.content
    assert b"between us" not in answer.content


def test_a_test_is_accepted_and_its_outcome_listed(olga: Client) -> None:
    accepted = post(olga, fingerprint(URL), reason="is it there?")

    assert accepted.status_code == 202, accepted.content
    assert (accepted.json()["change"], accepted.json()["state"]) == ("test", "waiting")
    (row,) = olga.get("/api/v1/webhooks").json()["results"]
    assert row["last_test"] == accepted.json()

    delivery = AlertDelivery.objects.get()
    AlertDelivery.objects.update(created_at=NOON)
    later = webhooks.send_test(
        webhook=fingerprint(URL), actor="user:ada", now=NOON + timedelta(hours=1)
    )
    (row,) = olga.get("/api/v1/webhooks").json()["results"]
    assert later.pk > delivery.pk
    assert row["last_test"]["id"] == later.pk


def test_a_second_test_within_seconds_is_refused_with_retry_after(olga: Client) -> None:
    post(olga, fingerprint(URL))
    refused = post(olga, fingerprint(URL))

    assert (refused.status_code, refused["Retry-After"]) == (429, "10")
    assert refused.json()["code"] == "too_many_requests"
    assert AlertDelivery.objects.count() == 1


def test_an_unknown_webhook_cannot_be_tested(olga: Client) -> None:
    assert post(olga, "0123456789abcdef").status_code == 404
    wrong = post(olga, fingerprint(URL), url="http://169.254.169.254/latest/meta-data")
    assert wrong.status_code == 400
    assert not AlertDelivery.objects.exists()
