"""The audit is filtered and paged; a person ends the sessions of other browsers."""

import pytest
from django.test import Client
from rest_framework.test import APIClient

from runs.events.services import record_event
from tests.factories import NOON, make_run, make_token, make_user

pytestmark = pytest.mark.django_db


def test_the_audit_is_filtered_and_paged() -> None:
    run = make_run(kind="outside")
    token, _ = make_token("admin", name="ci")
    for number in range(3):
        record_event(
            run_id=run.pk, kind="note", message=f"n{number}", actor=f"token:{token.pk}", now=NOON
        )
    record_event(run_id=None, kind="server", message="m", actor="user:ada", now=NOON)
    client = APIClient()
    client.force_login(make_user())

    first = client.get("/api/v1/audit", {"kind": "note", "limit": 2}).json()
    assert [(row["message"], row["actor_name"]) for row in first["results"]] == [
        ("n2", "ci"),
        ("n1", "ci"),
    ]
    rest = client.get("/api/v1/audit", {"kind": "note", "cursor": first["next"]}).json()
    assert [row["message"] for row in rest["results"]] == ["n0"]
    by_people = client.get("/api/v1/audit", {"people": "1", "actor": "user:ada"}).json()["results"]
    assert [(row["run"], row["message"]) for row in by_people] == [(None, "m")]
    lines = client.get("/api/v1/audit.csv", {"text": "n1"}).content.decode().splitlines()
    assert len(lines) == 2
    assert ",ci,alpha,note,n1," in lines[1]


def test_signing_out_everywhere_keeps_the_current_session() -> None:
    person = make_user(username="ada")
    here, there, other = Client(), Client(), Client()
    here.force_login(person)
    there.force_login(person)
    other.force_login(make_user(username="bob"))

    assert here.get("/api/v1/sessions").json()["sessions"] == 2
    assert here.delete("/api/v1/sessions").json()["sessions"] == 1

    assert here.get("/api/v1/session").json()["authenticated"] is True
    assert there.get("/api/v1/session").json()["authenticated"] is False
    assert other.get("/api/v1/session").json()["authenticated"] is True
