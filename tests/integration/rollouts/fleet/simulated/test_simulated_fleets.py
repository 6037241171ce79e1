"""A simulated run of 2,000 workers stays live, and the server responds throughout."""

import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import httpx
import numpy as np
import pytest
from django.core.management import CommandError, call_command
from django.db import connections
from pytest_django.live_server_helper import LiveServer

from rolldeck.trainer import Trainer
from rollouts.fleet.process.settings import FleetSettings
from rollouts.fleet.simulated.workers import SimulatedWorkers
from runs.config.rules import run_config
from runs.config.rules.run_config import InvalidRunConfig
from runs.config.services.run_configs import configured
from runs.lifecycle.services.lifecycle import create
from tests.factories import NOON, bearer, make_token
from tests.waiting import within

WORKERS = 2000
SIMULATED = {"environment": {"spec": "simulated:steady"}}


class Viewer:
    """Reads the run as a page does."""

    def __init__(self, url: str) -> None:
        self._client = httpx.Client(base_url=url, headers=bearer("admin"), timeout=60)

    def get(self, path: str) -> Any:
        answer = self._client.get(f"/api/v1/runs/pole{path}")
        assert answer.status_code in {200, 404}, answer.text
        return answer.json() if answer.status_code == 200 else None

    def steps_of_all(self) -> int:
        """Return the env steps of all workers, 0 unless all of them are live and stepping."""
        workers = (self.get("/fleet") or {"workers": []})["workers"]
        is_live = len(workers) == WORKERS and all(
            worker["state"] == "running" and worker["env_steps"] for worker in workers
        )
        return sum(worker["env_steps"] for worker in workers) if is_live else 0

    def accepted(self) -> int:
        return int(self.get("/ledger")["fragments"]["accepted"])

    def kill(self) -> None:
        answer = self._client.post("/api/v1/runs/pole/kill", json={"reason": "seen"})
        assert answer.status_code in {200, 202}, answer.text

    def close(self) -> None:
        self._client.close()


@contextmanager
def simulation(viewer: Viewer, url: str, **options: Any) -> Iterator[None]:
    """Run ``manage.py simulate`` in the background of the test."""

    def run() -> None:
        try:
            call_command("simulate", run="pole", url=url, seconds=300.0, **options)
        finally:
            connections.close_all()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        viewer.kill()
        thread.join(60)
    assert not thread.is_alive()


@pytest.mark.full("a load of 2,000 workers")
@pytest.mark.django_db(transaction=True)
def test_two_thousand_simulated_workers_report_and_send_fragments(
    live_server: LiveServer, settings: Any
) -> None:
    settings.ROLLDECK_SIMULATION = True
    with (
        closing(Viewer(live_server.url)) as viewer,
        simulation(
            viewer, live_server.url, workers=WORKERS, slots=1, step_seconds=0.01, serve=True
        ),
    ):
        assert within(60, lambda: viewer.get("") is not None)
        with Trainer(live_server.url, "pole", make_token("trainer")[1]) as trainer:
            trainer.register()
            trainer.publish_weights({"nothing": np.zeros(1, np.float32)}, step=0)
        sent, seen, answers = viewer.accepted(), set[int](), list[float]()

        def is_seen_thrice() -> bool:
            asked_at = time.monotonic()
            seen.add(viewer.steps_of_all())
            answers.append(time.monotonic() - asked_at)
            return len(seen - {0}) >= 3

        assert within(180, is_seen_thrice)
        assert within(60, lambda: viewer.accepted() > sent)
        assert viewer.get("")["serves_simulated"]

    # A separate web process is ten times as fast; here it shares one interpreter.
    assert np.median(answers) < 5.0


@pytest.mark.django_db
def test_simulations_are_offered_only_if_enabled(settings: Any) -> None:
    with pytest.raises(InvalidRunConfig, match="not registered"):
        configured(preset="", config=SIMULATED)
    settings.ROLLDECK_SIMULATION = True
    assert configured(preset="", config=SIMULATED).fleet.num_workers == 1
    run = create(name="pole", config=SIMULATED, actor="user:ada", now=NOON)
    assert run.withholds_data
    serving = SIMULATED | {"buffer": {"serves_simulated": True}}
    assert not create(name="other", config=serving, actor="user:ada", now=NOON).withholds_data


@pytest.mark.django_db
def test_an_unknown_simulation_is_refused(settings: Any) -> None:
    settings.ROLLDECK_SIMULATION = True
    environment = {**SIMULATED["environment"], "kwargs": {"step_second": 1}}
    with pytest.raises(InvalidRunConfig, match="step_second"):
        configured(preset="", config={"environment": environment})


def test_a_simulated_run_needs_no_cluster_for_its_workers() -> None:
    # Ray reads its token on import: not before a test cluster has set one.
    from rollouts.fleet.manager.actors import workers_for

    parsed = run_config.parse(SIMULATED)
    fleet = FleetSettings(
        platform_url="http://127.0.0.1:9",
        token="t",
        run="pole",
        run_config=run_config.to_builtins(parsed),
        incarnation="1-a",
    )
    workers = workers_for(fleet)
    assert isinstance(workers, SimulatedWorkers)
    workers.close()


def test_the_command_is_refused_if_simulations_are_disabled() -> None:
    with pytest.raises(CommandError, match="ROLLDECK_SIMULATION"):
        call_command("simulate")
