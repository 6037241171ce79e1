"""Health endpoints need no credentials; metrics need a scope."""

from datetime import UTC, datetime

import pytest
from django.db import connection
from django.test import Client
from pytest_django import Settings

from rolldeck import __version__
from runs.lifecycle.rules import RunStatus
from runs.lifecycle.services.lifecycle import create, move
from tests.factories import make_token

NOW = datetime(2026, 1, 1, tzinfo=UTC)
pytestmark = pytest.mark.django_db


def test_the_liveness_route_answers(client: Client) -> None:
    assert client.get("/healthz/live").json() == {"status": "live"}


def test_the_readiness_route_lists_each_server(client: Client) -> None:
    answer = client.get("/healthz/ready")

    assert answer.status_code == 200
    assert answer.json() == {"status": "ready", "database": "up", "redis": "up"}


@pytest.mark.parametrize("route", ["live", "ready"])
def test_health_checks_may_name_any_host(client: Client, route: str, settings: Settings) -> None:
    settings.ALLOWED_HOSTS = ["deck.example"]

    answer = client.get(f"/healthz/{route}", headers={"Host": "10.42.0.17:8000"})

    assert answer.status_code == 200
    assert client.get("/api/v1/server", headers={"Host": "10.42.0.17:8000"}).status_code == 400


def test_without_redis_the_platform_is_slower_but_ready(client: Client, settings: Settings) -> None:
    settings.REDIS_URL = "unix:///nowhere/valkey.sock"
    answer = client.get("/healthz/ready")

    assert (answer.status_code, answer.json()["redis"]) == (200, "down")


def test_without_its_database_the_platform_is_not_ready(client: Client) -> None:
    connection.set_rollback(True)  # the transaction of this test accepts no query
    try:
        answer = client.get("/healthz/ready")
    finally:
        connection.set_rollback(False)

    assert (answer.status_code, answer["Retry-After"]) == (503, "1")
    assert answer["Content-Type"] == "application/problem+json"
    assert (answer.json()["code"], answer.json()["status"]) == ("not_ready", 503)
    assert answer.json()["detail"] == "database down, redis up"


def test_metrics_need_their_scope(client: Client) -> None:
    _, worker = make_token("worker")

    assert client.get("/metrics").status_code == 401
    assert client.get("/metrics", headers={"Authorization": f"Bearer {worker}"}).status_code == 403


def test_metrics_count_runs_and_queues(client: Client) -> None:
    _, token = make_token("metrics")
    run = create(name="outside-1", kind="outside", now=NOW)
    for target in (RunStatus.QUEUED, RunStatus.RUNNING):
        move(run_id=run.pk, target=target, actor="platform", now=NOW)
    answer = client.get("/metrics", headers={"Authorization": f"Bearer {token}"})

    text = answer.content.decode()
    assert answer.headers["Content-Type"].startswith("text/plain")
    assert 'rolldeck_runs{status="running"} 1.0' in text
    assert 'rolldeck_queued_items{run="outside-1"} 0.0' in text


@pytest.mark.parametrize(
    ("agent", "version"),
    [("rolldeck/0.0.1", __version__), ("curl/8.1", ""), ("", "")],
)
def test_the_client_package_receives_the_version(client: Client, agent: str, version: str) -> None:
    for path in ("/healthz/live", "/api/v1/runs", "/atropos/status"):
        answer = client.get(path, headers={"User-Agent": agent})

        assert answer.headers.get("Rolldeck-Version", "") == version, path
