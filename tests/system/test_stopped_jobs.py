"""A frozen Celery worker is named by `why`, an alert, *Cluster* and the metrics, then replaced."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.server import NO_RAY, Server, running_server, wait_until

pytestmark = [
    pytest.mark.system,
    pytest.mark.release("waits for missed heartbeats, about two minutes"),
]


def alerts(server: Server, kind: str, state: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = server.get(f"/api/v1/alerts?kind={kind}&state={state}")["results"]
    return found


def test_a_frozen_worker_is_reported_without_jobs_and_replaced(tmp_path: Path) -> None:
    def within(seconds: float, what: str, condition: Callable[[], Any]) -> Any:
        return wait_until(condition, seconds=seconds, what=what)

    with running_server(tmp_path, RAY_ADDRESS=NO_RAY) as server:
        within(60, "jobs run", lambda: server.get("/api/v1/cluster")["jobs"]["state"] == "up")
        frozen = server.child("celery", "--pool=prefork")
        os.kill(frozen, signal.SIGSTOP)
        server.post("/api/v1/runs", {"name": "waits", "preset": "cartpole", "start": True})

        def why() -> dict[str, Any]:
            answer: dict[str, Any] = server.get("/api/v1/runs/waits/pipeline")["diagnosis"]
            return answer

        within(90, "the diagnosis names the jobs", lambda: why()["kind"] == "jobs_down")
        assert "no heartbeats from the process that runs them" in why()["summary"]
        (alert,) = within(60, "an alert", lambda: alerts(server, "jobs_down", "open"))
        assert alert["severity"] == "error"

        # The supervisor replaces the worker, and *Cluster* keeps the reason.
        within(120, "another worker", lambda: server.child("celery", "--pool=prefork") != frozen)
        (row,) = within(60, "the exit", lambda: server.get("/api/v1/cluster")["exits"])
        assert (row["part"], row["reason"]) == ("jobs", "jobs sends no heartbeats")
        within(60, "the alert ends", lambda: alerts(server, "jobs_down", "resolved"))
        assert why()["kind"] != "jobs_down"
        (exited,) = within(60, "an alert", lambda: alerts(server, "part_exited", "open"))
        assert exited["message"].startswith("jobs sends no heartbeats on ")
