"""Calls are recorded with their caller and response, whatever went wrong."""

import json
from dataclasses import replace
from typing import Any

import pytest
from django.test import Client
from django.urls import resolve
from rest_framework.test import APIClient, APIRequestFactory

from config.call_recording import CallRecording
from runs.access.models.calls import ApiCall
from runs.access.rules.call_digest import Call
from runs.access.services.calls import forget_calls, keep_calls
from runs.events.services import record_event
from tests.factories import NOON, make_run, make_token, make_user
from tests.unit.runs.test_call_digest import CALL


@pytest.fixture
def noted() -> list[Call]:
    return []


def call(noted: list[Call], path: str, method: str = "GET", **headers: str) -> Any:
    """Send a request through the middleware to the view of its route."""

    def answer(request: Any) -> Any:
        request.resolver_match = match = resolve(path)
        return match.func(request, *match.args, **match.kwargs)

    request = APIRequestFactory().generic(method, path, b"{}", headers=headers)
    return CallRecording(answer, add=noted.append)(request)


@pytest.mark.django_db
def test_a_refusal_of_a_token_is_noted_with_what_it_said(noted: list[Call]) -> None:
    make_run(kind="outside")
    token, text = make_token("trainer")

    call(noted, "/api/runs/alpha/pause", "POST", Authorization=f"Bearer {text}")

    (kept,) = noted
    assert (kept.client, kept.status) == (f"token:{token.pk}", 403)
    assert kept.route == "api/runs/<slug:run>/pause"
    assert json.loads(kept.content)["code"] == "forbidden"
    assert kept.duration_ms > 0


@pytest.mark.django_db
def test_a_success_is_noted_without_its_content_and_a_stranger_by_address(
    noted: list[Call],
) -> None:
    make_run()
    _, text = make_token("trainer")

    call(noted, "/api/runs/alpha", Authorization=f"Bearer {text}")
    call(noted, "/api/runs/alpha", Authorization="Bearer wrong")

    assert [(each.status, each.content) for each in noted[:1]] == [(200, b"")]
    assert (noted[1].client, noted[1].status) == ("address:127.0.0.1", 401)


@pytest.mark.django_db
def test_only_the_last_calls_of_a_client_are_kept() -> None:
    keep_calls([replace(CALL, path=f"/{n}") for n in range(5)], kept_of_each=3)
    keep_calls([replace(CALL, client="token:2")], kept_of_each=3)
    keep_calls([replace(CALL, path="/5")], kept_of_each=3)

    assert [row.path for row in ApiCall.objects.filter(client="token:1").order_by("id")] == [
        "/3",
        "/4",
        "/5",
    ]
    assert ApiCall.objects.filter(client="token:2").count() == 1
    assert forget_calls(now=NOON) == 4  # of 1970


@pytest.mark.django_db
def test_hostile_bytes_are_kept_as_text() -> None:
    odd = b'{"code":"x","detail":"a\\u0000b \\ud800","errors":[{"field":"groups[0].tokens"},7]}'
    keep_calls(
        [
            replace(CALL, status=422, content=odd, path="/a\x00b"),
            replace(CALL, status=500, content=b"\xff<html>"),
        ],
        kept_of_each=100,
    )

    first, second = ApiCall.objects.order_by("id")
    assert first.path == "/a\N{REPLACEMENT CHARACTER}b"
    assert second.problem["detail"].endswith("<html>")


@pytest.mark.django_db
def test_an_administrator_sees_clients_and_their_calls() -> None:
    token, _ = make_token("env", name="gsm8k")
    refusal = b'{"code":"invalid","detail":"no","errors":[{"field":"groups[0]","message":"x"}]}'
    mine = replace(CALL, client=f"token:{token.pk}")
    keep_calls(
        [
            replace(mine, stands_for=41),
            replace(mine, status=422, content=refusal),
            replace(mine, replayed=True),
        ],
        kept_of_each=100,
    )
    client = APIClient()
    client.force_login(make_user(username="ada", role="admin"))

    (row,) = client.get("/api/api-clients").json()["results"]
    assert (row["name"], row["calls"], row["refused"], row["replayed"]) == ("gsm8k", 43, 1, 1)

    asked = {"client": f"token:{token.pk}", "only": "refused"}
    (refused,) = client.get("/api/api-calls", asked).json()["results"]
    assert refused["problem"]["errors"] == [{"field": "groups[0]", "message": "x"}]
    assert client.get("/api/api-calls", {"only": "odd"}).status_code == 400


@pytest.mark.django_db
def test_the_audit_is_filtered_and_paged() -> None:
    run = make_run(kind="outside")
    token, _ = make_token("admin", name="ci")
    for number in range(3):
        record_event(
            run_id=run.pk, kind="note", message=f"n{number}", actor=f"token:{token.pk}", now=NOON
        )
    record_event(run_id=None, kind="deck", message="m", actor="user:ada", now=NOON)
    client = APIClient()
    client.force_login(make_user())

    first = client.get("/api/audit", {"kind": "note", "limit": 2}).json()
    assert [(row["message"], row["actor_name"]) for row in first["results"]] == [
        ("n2", "ci"),
        ("n1", "ci"),
    ]
    rest = client.get("/api/audit", {"kind": "note", "cursor": first["next"]}).json()
    assert [row["message"] for row in rest["results"]] == ["n0"]
    by_people = client.get("/api/audit", {"people": "1", "actor": "user:ada"}).json()["results"]
    assert [(row["run"], row["message"]) for row in by_people] == [(None, "m")]
    lines = client.get("/api/audit.csv", {"text": "n1"}).content.decode().splitlines()
    assert len(lines) == 2
    assert ",ci,alpha,note,n1," in lines[1]


@pytest.mark.django_db
def test_signing_out_everywhere_leaves_the_browser_that_asked() -> None:
    person = make_user(username="ada")
    here, there, other = Client(), Client(), Client()
    here.force_login(person)
    there.force_login(person)
    other.force_login(make_user(username="bob"))

    assert here.get("/api/sessions").json()["sessions"] == 2
    assert here.delete("/api/sessions").json()["sessions"] == 1

    assert here.get("/api/session").json()["authenticated"] is True
    assert there.get("/api/session").json()["authenticated"] is False
    assert other.get("/api/session").json()["authenticated"] is True
