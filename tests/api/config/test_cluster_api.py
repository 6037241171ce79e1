"""Status of the deployment's parts: each is probed separately, and none hides the others."""

import os
import socket
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from kombu.exceptions import OperationalError
from pytest_django import Settings

from config import celery_app, heartbeats
from config.cluster import status
from config.cluster.status import StatusProbe
from rollouts.control.services.machines import record_cluster_nodes
from runs.deployment.models import ProcessHeartbeat
from runs.deployment.services import (
    delete_dead_processes,
    delete_silent_processes,
    record_heartbeat,
)
from tests.factories import NOON, bearer, make_user
from tests.fake_cluster import FakeCluster

pytestmark = pytest.mark.django_db


@pytest.fixture
def dead_port() -> Iterator[int]:
    """A port that refuses connections: bound without listening."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port that accepts connections and never sends anything."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as silent:
        yield silent.getsockname()[1]


def cluster(client: Client, *, role: str = "viewer") -> dict[str, Any]:
    client.force_login(make_user(username=f"a-{role}", role=role))
    answer = client.get("/api/v1/cluster")
    assert answer.status_code == 200, answer.content
    content: dict[str, Any] = answer.json()
    return content


def test_every_reachable_part_is_up_with_its_details(client: Client) -> None:
    cluster_state = cluster(client)

    database, broker, storage = (
        cluster_state["database"],
        cluster_state["broker"],
        cluster_state["storage"],
    )
    assert (database["state"], broker["state"], storage["state"]) == ("up", "up", "up")
    assert int(database["version"].split(".")[0]) >= 14
    assert 1 <= database["connections"] <= database["connections_at_most"]
    assert database["size_bytes"] > 1_000_000
    assert database["replicas"] == 0
    assert (broker["product"], broker["clients"] >= 1) == ("Valkey", True)
    assert 0 < storage["free_bytes"] <= storage["total_bytes"]
    assert cluster_state["versions"]["python"]
    assert (cluster_state["ray"]["state"], cluster_state["ray"]["problem"][:11]) == (
        "absent",
        "RAY_ADDRESS",
    )


def test_addresses_are_for_administrators(client: Client) -> None:
    shown = [cluster(client, role=role) for role in ("viewer", "admin")]

    viewer, admin = (
        [part["database"]["address"], part["broker"]["address"], part["storage"]["place"]]
        for part in shown
    )
    assert viewer == [None, None, None]
    assert all(admin)


def test_a_stopped_broker_does_not_affect_other_parts(
    client: Client, settings: Settings, dead_port: int
) -> None:
    settings.REDIS_URL = f"redis://:secret@127.0.0.1:{dead_port}/0"

    cluster_state = cluster(client)

    assert (cluster_state["broker"]["state"], cluster_state["broker"]["problem"]) == (
        "down",
        "no answer",
    )
    assert cluster_state["broker"]["version"] is None
    assert cluster_state["database"]["state"] == "up"


def test_the_reason_of_a_failed_part_is_shown_to_administrators_without_its_password(
    client: Client, settings: Settings, dead_port: int
) -> None:
    settings.REDIS_URL = f"redis://:secret@127.0.0.1:{dead_port}/0"

    broker = cluster(client, role="admin")["broker"]

    assert str(dead_port) in broker["problem"]
    assert broker["address"] == f"redis://127.0.0.1:{dead_port}/0"
    assert "secret" not in str(broker)


def test_a_silent_broker_does_not_delay_the_cluster_page(
    client: Client, settings: Settings, silent_port: int
) -> None:
    settings.REDIS_URL = f"redis://127.0.0.1:{silent_port}/0"
    began = time.monotonic()

    cluster_state = cluster(client)

    assert cluster_state["broker"]["state"] in {"down", "unknown"}
    assert cluster_state["database"]["state"] == "up"
    # A second for all parts; the rest is a slow machine.
    assert time.monotonic() - began < 30


@pytest.mark.parametrize("port", ["dead_port", "silent_port"])
def test_an_unreachable_database_is_reported_within_the_timeout_of_libpq(
    port: str, request: pytest.FixtureRequest
) -> None:
    params = {"host": "127.0.0.1", "port": request.getfixturevalue(port), "user": "x"}
    probe: StatusProbe[Any] = StatusProbe(
        lambda: status.database_figures(params), clock=lambda: NOON
    )

    probe.start()
    assert probe.result(by=time.monotonic() + 0.01).state in {"down", "unknown"}
    result = probe.result(by=time.monotonic() + 60)

    assert (result.state, result.answer) == ("down", None)


def test_no_worker_is_distinguished_from_no_broker(dead_port: int, settings: Settings) -> None:
    with pytest.raises(status.NoWorkerAnswers):
        status.active_jobs(celery_app)

    away = celery_app.conf.broker_url
    celery_app.conf.broker_url = f"redis://127.0.0.1:{dead_port}/0"
    try:
        with pytest.raises(OperationalError):
            status.active_jobs(celery_app)
    finally:
        celery_app.conf.broker_url = away


def test_a_process_has_the_details_of_its_last_heartbeat(client: Client) -> None:
    now = datetime.now(UTC)
    record_heartbeat(
        kind="worker",
        name="jobs@here",
        host="here",
        pid=7,
        started_at=NOON,
        version="1.2",
        details={"queues": ["celery"], "concurrency": 2, "memory_bytes": 4096},
        now=now,
    )
    record_heartbeat(kind="web", name="here:8", started_at=NOON, now=now)

    cluster_state = cluster(client)

    (worker,) = cluster_state["workers"]
    assert (worker["name"], worker["queues"], worker["concurrency"]) == ("jobs@here", ["celery"], 2)
    assert worker["active"] is None  # no worker of that name answers
    assert [process["name"] for process in cluster_state["web"]] == ["here:8"]
    assert cluster_state["schedulers"] == []


def test_a_later_heartbeat_replaces_the_earlier_one() -> None:
    for minutes in (0, 1):
        record_heartbeat(
            kind="web",
            name="here:8",
            started_at=NOON,
            details={"memory_bytes": minutes},
            now=NOON + timedelta(minutes=minutes),
        )

    part = ProcessHeartbeat.objects.get()
    assert (part.confirmed_at, part.details) == (NOON + timedelta(minutes=1), {"memory_bytes": 1})


def test_ended_processes_are_removed_by_their_host() -> None:
    dead_pid = 2**22 + 1  # above Linux' maximum process id
    for name, host, pid in (
        ("a", "here", os.getpid()),
        ("b", "here", dead_pid),
        ("c", "there", dead_pid),
    ):
        record_heartbeat(kind="web", name=name, host=host, pid=pid, started_at=NOON, now=NOON)

    assert delete_dead_processes(host="here", is_alive=heartbeats.is_alive) == 1
    assert sorted(ProcessHeartbeat.objects.values_list("name", flat=True)) == ["a", "c"]

    assert delete_silent_processes(now=NOON + timedelta(minutes=59)) == 0
    assert delete_silent_processes(now=NOON + timedelta(minutes=61)) == 2


class TestRay:
    ADDRESS = "10.0.0.7:6379"

    def look(self, fake: FakeCluster, **more: Any) -> bool:
        return record_cluster_nodes(
            cluster=fake, address=self.ADDRESS, now=datetime.now(UTC), **more
        )

    def test_nodes_are_shown_with_the_age_of_the_status(
        self, client: Client, settings: Settings
    ) -> None:
        settings.RAY_ADDRESS = self.ADDRESS
        fake = FakeCluster()
        assert self.look(fake)
        assert not self.look(fake, unless_newer_than_seconds=60)

        ray = cluster(client)["ray"]

        assert (ray["state"], ray["address"]) == ("up", None)
        assert [(node["host"], node["cpus"], node["is_head"]) for node in ray["nodes"]] == [
            ("head", 4.0, True)
        ]

    def test_an_unreachable_cluster_is_shown_with_its_last_status(
        self, client: Client, settings: Settings
    ) -> None:
        settings.RAY_ADDRESS = self.ADDRESS
        fake = FakeCluster()
        self.look(fake)
        fake.is_reachable = False
        self.look(fake)

        ray = cluster(client, role="admin")["ray"]

        assert (ray["state"], len(ray["nodes"]), ray["address"]) == ("down", 1, self.ADDRESS)
        assert "refused" in ray["problem"]
        assert ray["confirmed_at"]

    def test_an_unreachable_cluster_without_a_status_has_no_time(
        self, client: Client, settings: Settings
    ) -> None:
        settings.RAY_ADDRESS = self.ADDRESS
        fake = FakeCluster()
        fake.is_reachable = False
        self.look(fake)

        ray = cluster(client)["ray"]

        assert (ray["state"], ray["confirmed_at"], ray["nodes"]) == ("down", None, [])
        assert ray["problem"] == "no answer"


def test_the_server_has_a_name(client: Client, settings: Settings) -> None:
    settings.ROLLDECK_DEPLOYMENT = "staging"
    client.force_login(make_user(role="admin"))

    server = client.get("/api/v1/server").json()

    assert (server["deployment"], server["auth"], server["time_zone"]) == ("staging", "open", "UTC")
    assert server["has_password"] is True
    machine = client.get("/api/v1/server", headers=bearer("trainer"))
    assert machine.status_code == 200
