"""A fleet of 2,000 workers stays live, and the server responds throughout."""

import threading
import time
from datetime import UTC, datetime
from typing import Any

import httpx
import numpy as np
import pytest
from pytest_django.live_server_helper import LiveServer

from benchmarks.fleet_reports import report_until
from rollouts.control.services.reconciliation import begin_launch
from runs.lifecycle.services.lifecycle import create_and_start
from tests.factories import bearer
from tests.waiting import within

WORKERS = 2000
CONFIG = {
    "environment": {"spec": "gymnasium:CartPole-v1"},
    "fleet": {"num_workers": WORKERS, "envs_per_worker": 1, "inference_batch_size": 1},
}


@pytest.mark.full("a load of 2,000 workers")
@pytest.mark.django_db(transaction=True)
def test_two_thousand_workers_report_live(live_server: LiveServer) -> None:
    now = datetime.now(UTC)
    run = create_and_start(start=True, actor="tests", now=now, name="pole", config=CONFIG)
    order = begin_launch(run_id=run.pk, reason="a test", platform_url=live_server.url, now=now)
    assert order is not None
    is_over = threading.Event()
    thread = threading.Thread(
        target=report_until,
        args=(is_over, live_server.url, "pole", order.incarnation, order.token),
        kwargs={"workers": WORKERS, "slots": 1},
        daemon=True,
    )
    thread.start()
    seen, answers = set[int](), list[float]()
    with httpx.Client(base_url=live_server.url, headers=bearer("admin"), timeout=60) as http:

        def steps_of_all() -> int:
            """Return the env steps of all workers; 0 unless all of them are live."""
            asked_at = time.monotonic()
            answer = http.get("/api/v1/runs/pole/fleet")
            answers.append(time.monotonic() - asked_at)
            workers: list[dict[str, Any]] = answer.json()["workers"]
            is_live = len(workers) == WORKERS and all(
                worker["state"] == "running" for worker in workers
            )
            return sum(worker["env_steps"] for worker in workers) if is_live else 0

        def are_seen_thrice() -> bool:
            seen.add(steps_of_all())
            return len(seen - {0}) >= 3

        try:
            assert within(180, are_seen_thrice)
        finally:
            is_over.set()
            thread.join(120)
    # The rows of the run are deleted next; no report may be written meanwhile.
    assert not thread.is_alive()

    # A separate web process is ten times as fast; here it shares one interpreter.
    assert np.median(answers) < 5.0
