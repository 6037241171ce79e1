"""Sign-ins, failed ones and sign-outs are logged with account and address, without a password."""

import json
from typing import Any

import pytest
from django.test import Client

from tests.factories import make_user

pytestmark = pytest.mark.django_db
JSON = "application/json"


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, dict[str, Any]]]:
    """Return the logged events with their facts."""
    found = [
        record.getMessage().partition(": ")
        for record in caplog.records
        if record.name == "runs.access.services.sign_in_log"
    ]
    return [(event, json.loads(facts)) for event, _, facts in found]


def test_a_session_is_logged_from_sign_in_to_sign_out(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    make_user()
    browser = Client(REMOTE_ADDR="192.0.2.7")

    browser.post("/api/v1/session", {"username": "alice", "password": "wrong-guess"}, JSON)
    browser.post("/api/v1/session", {"username": "alice", "password": "alice"}, JSON)
    browser.delete("/api/v1/session")

    found = lines(caplog)
    events = ["sign_in_failed", "sign_in_succeeded", "sign_out_succeeded"]
    assert [event for event, _ in found] == events
    for _, facts in found:
        assert facts.pop("request_id")
        assert facts == {"account": "alice", "address": "192.0.2.7", "path": "/api/v1/session"}
    assert "wrong-guess" not in caplog.text


def test_a_sign_in_to_the_admin_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    make_user(role="admin")

    Client().post("/admin/login/", {"username": "alice", "password": "wrong"})
    Client().post("/admin/login/", {"username": "alice", "password": "alice"})

    assert [event for event, _ in lines(caplog)] == ["sign_in_failed", "sign_in_succeeded"]


def test_a_hostile_name_forges_no_line(caplog: pytest.LogCaptureFixture) -> None:
    name = "a\n2026-01-01 sign_in_succeeded\x1b[2J" + "x" * 500

    Client().post("/admin/login/", {"username": name, "password": "x"})

    (record,) = [each for each in caplog.records if each.name.endswith("sign_in_log")]
    text = record.getMessage()
    assert text.isascii()
    assert text.isprintable()
    assert len(text) < 1000
