"""Tokens are accepted from their networks only."""

from typing import Any

import pytest
from django.test import Client

from tests.factories import make_run, make_user

pytestmark = pytest.mark.django_db


def create_token_for(networks: list[str]) -> Any:
    client = Client()
    client.force_login(make_user(username="ada", role="admin"))
    body = {"name": "the lab's", "scopes": ["admin"], "networks": networks}
    return client.post("/api/v1/tokens", body, content_type="application/json")


def test_a_token_is_refused_outside_its_networks() -> None:
    make_run(name="alpha")
    created = create_token_for(["10.0.0.0/8", "192.168.1.7"]).json()
    headers = {"Authorization": f"Bearer {created['token']}"}

    def status(address: str) -> int:
        answer = Client().get("/api/v1/runs/alpha", headers=headers, REMOTE_ADDR=address)
        return int(answer.status_code)

    assert created["networks"] == ["10.0.0.0/8", "192.168.1.7/32"]
    assert [status(address) for address in ("10.2.3.4", "192.168.1.7")] == [200, 200]
    assert [status(address) for address in ("127.0.0.1", "192.168.1.8", "")] == [401, 401, 401]


def test_an_invalid_network_is_refused_with_its_field() -> None:
    answer = create_token_for(["10.0.0.0/8", "the lab"])

    assert answer.status_code == 400
    (error,) = answer.json()["errors"]
    assert error["field"] == "networks"
    assert "the lab" in error["message"]
