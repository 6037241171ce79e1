"""Fixtures of the fuzz suite: one platform with a few runs, served by a real web process."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import httpx
import msgspec
import pytest
from django.db import connection
from schemathesis.pytest.plugin import SchemathesisFunction

from buffer.archive.services.archive_jobs import run_archive_jobs
from runs.lifecycle.models import Run
from tests.buffer_factories import ENVIRONMENT, REGISTRATION, group
from tests.database import delete_rows
from tests.factories import make_run, make_token
from tests.fake_cluster import FakeCluster
from tests.fuzz.known_requests import CAPTURED
from tests.integration.rollouts.report_factories import launched, report, window, worker
from tests.web_process import WebProcess, web_process

# Short timeouts, so that a silent client is disconnected within a test.
TIMEOUTS = {"ROLLDECK_MAX_HEADER_SECONDS": "1", "ROLLDECK_MAX_IDLE_SECONDS": "1"}
# Single bytes with pauses are a separate case, and slow on a busy machine.
TIMEOUTS |= {"ROLLDECK_MIN_BODY_BYTES_PER_SECOND": "20"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Add the operation to the id of each generated test.

    schemathesis 4.32 puts it in the name only. pytest 9.2 no longer derives the id from the name,
    and xdist runs one test of each id.
    """
    for item in items:
        if isinstance(item, SchemathesisFunction) and item.operation_label not in item.nodeid:
            item._id = item._id.with_params(item.operation_label)


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """A running platform with an administrator's token and the data that calls need."""

    web: WebProcess
    token: str
    report: dict[str, Any]
    lease: dict[str, Any]


@pytest.fixture(scope="module")
def platform(
    django_db_setup: None, django_db_blocker: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Platform]:
    """A platform for a whole module: data stored by one case is visible to the next."""
    log = tmp_path_factory.mktemp("fuzz") / "web.log"
    with django_db_blocker.unblock():
        try:
            with web_process(log, **TIMEOUTS) as web:
                yield _populated(web)
        finally:
            delete_rows()
            connection.close()


def _populated(web: WebProcess) -> Platform:
    _, token = make_token("admin")
    fleet = launched(FakeCluster(), "fleet")
    given = msgspec.to_builtins(report(fleet, worker(env_steps=10), episodes=[window(1.0, 3.0)]))
    Run.objects.filter(pk=fleet.pk).update(status="running", epoch=1, policy_step=0)
    headers = {"Authorization": f"Bearer {token}"}
    with httpx.Client(base_url=web.url, headers=headers, timeout=30) as http:
        http.get("/status").raise_for_status()  # begins the default run
        make_run(name="changing", kind="outside")
        for name in ("demo", "leased"):
            make_run(name=name, kind="outside")
            _post(http, f"/atropos/{name}/register", REGISTRATION)
            http.get(f"/atropos/{name}/batch").raise_for_status()
            _post(http, f"/atropos/{name}/register-env", ENVIRONMENT)
        _post(http, "/api/v1/runs/demo/captures/agent/calls", CAPTURED)
        _post(http, "/atropos/leased/scored_data_list", [group(mark=mark) for mark in range(2)])
        leased = http.post("/api/v1/runs/leased/batches/next", json={})
        leased.raise_for_status()
        head = msgspec.msgpack.decode(leased.content)["batch"]
        lease = {"run": "leased", "batch": head["id"], "fence": head["fence"]}
        lease |= {"archive": _archived(http), "cursor": _followed(http)}
    return Platform(web=web, token=token, report=given, lease=lease)


def _archived(http: httpx.Client) -> int:
    """Create an archive and return its id once it is written."""
    archive = _post(http, "/api/v1/runs/leased/archives", {})
    assert run_archive_jobs(clock=lambda: datetime.now(UTC)) == 1
    return int(archive["id"])


def _followed(http: httpx.Client) -> str:
    """Return the cursor after the items that a follower has read."""
    http.put("/api/v1/runs/leased/followers/harvest", json={}).raise_for_status()
    headers = {"Accept": "application/json"}
    read = http.post("/api/v1/runs/leased/followers/harvest/fetch", json={}, headers=headers)
    return str(read.raise_for_status().json()["follower"]["cursor"])


def _post(http: httpx.Client, path: str, body: Any) -> Any:
    return http.post(path, json=body).raise_for_status().json()
