"""Refused and slow API calls of machines are logged with their caller and response."""

import json
from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from config.log_filters import LONGEST_LINE
from tests.factories import make_run, make_token, make_user

pytestmark = pytest.mark.django_db


def logged(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    """Return the logged calls; every other request line would count a refusal twice."""
    lines = [record for record in caplog.records if record.name != "config.middleware"]
    assert [line for line in lines if line.name == "django.request"] == []
    texts = [record.getMessage() for record in caplog.records if record.name == "config.middleware"]
    return [json.loads(text.removeprefix("api_call: ")) for text in texts]


def level(caplog: pytest.LogCaptureFixture) -> str:
    """Return the level of the newest logged call; threads of other tests log too."""
    return [one for one in caplog.records if one.name == "config.middleware"][-1].levelname


def test_a_refusal_of_a_token_is_logged_with_its_error(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    make_run(kind="outside")
    token, text = make_token("trainer", name="gsm8k")
    headers = {"Authorization": f"Bearer {text}", "User-Agent": "rolldeck/0.1.0"}

    client.post("/api/v1/runs/alpha/pause", b"{}", "application/json", headers=headers)

    [call] = logged(caplog)
    facts = {"run": "alpha", "status": 403, "method": "POST", "code": "forbidden", "bytes_in": 2}
    assert call.items() >= facts.items()
    assert (call["principal"], call["client"]) == (f"token:{token.pk}", "rolldeck/0.1.0")
    assert call["token"] == f"gsm8k ({token.prefix})"
    assert call["route"] == "api/v1/runs/<slug:run>/pause"
    assert call["bytes_out"] > len(call["detail"]) > 0
    assert call["duration_ms"] > 0
    assert level(caplog) == "WARNING"
    assert text not in caplog.text


def test_a_success_is_logged_only_if_it_is_slow(
    client: Client, caplog: pytest.LogCaptureFixture, settings: Settings
) -> None:
    make_run()
    headers = {"Authorization": f"Bearer {make_token('trainer')[1]}"}

    caplog.set_level("INFO")
    settings.ROLLDECK_SLOW_CALL_MS = 60_000
    client.get("/api/v1/runs/alpha", headers=headers)
    assert logged(caplog) == []

    settings.ROLLDECK_SLOW_CALL_MS = 0
    client.get("/api/v1/runs/alpha", headers=headers)
    [call] = logged(caplog)
    assert (call["status"], "detail" in call) == (200, False)
    assert level(caplog) == "INFO"


def test_an_unknown_token_is_logged_by_its_address(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    client.get("/api/v1/runs", headers={"Authorization": "Bearer wrong"})

    [call] = logged(caplog)
    assert (call["principal"], call["status"]) == ("address:127.0.0.1", 401)


def test_pages_of_people_are_not_logged(
    client: Client, caplog: pytest.LogCaptureFixture, settings: Settings
) -> None:
    settings.ROLLDECK_SLOW_CALL_MS = 0
    client.force_login(make_user())

    client.get("/api/v1/runs")
    client.get("/login")

    assert [record for record in caplog.records if record.name == "config.middleware"] == []


@pytest.mark.parametrize("text", ["a", "\u00e9", "\\", '"'])
def test_a_line_about_a_client_without_a_token_is_short(
    client: Client, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    headers = {"User-Agent": text * 6000, "Authorization": "Bearer wrong"}

    client.get(f"/api/v1/runs/{'a' * 6000}", headers=headers)

    [line] = [one.getMessage() for one in caplog.records if one.name == "config.middleware"]
    assert len(line) <= LONGEST_LINE
    call = json.loads(line.removeprefix("api_call: "))
    assert (call["status"], call["route"]) == (401, "api/v1/runs/<slug:run>")
    assert call["client"] == text * len(call["client"])


def test_hostile_text_forges_no_line(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    headers = {"User-Agent": "a\x1b[2J\u2028b", "Authorization": "Bearer wrong"}

    client.get("/api/v1/runs", headers=headers)

    [record] = [record for record in caplog.records if record.name == "config.middleware"]
    text = record.getMessage()
    assert text.isascii()
    assert text.isprintable()
