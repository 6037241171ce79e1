"""An unmodified `BaseEnv` of atroposlib stops while its run is paused, and continues."""

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from django.db import connection

from examples import tiny_checkpoint
from runs.lifecycle.models import Run
from runs.lifecycle.rules import RunVerb
from runs.lifecycle.services.lifecycle import change_status
from tests.buffer_factories import REGISTRATION
from tests.live_server import serving
from tests.waiting import eventually

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.partner]

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".partners" / "atropos" / "bin" / "python"
GROUP_SIZE = 4
QUIET_SECONDS = 4
"""Observation time; the environment polls at least once and produces dozens of groups in it."""


@pytest.fixture
def server() -> Iterator[str]:
    with serving() as base:
        yield base
    connection.close()


@pytest.fixture
def http(server: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server, timeout=60) as client:
        yield client


@contextmanager
def environment(server: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run the environment until the block ends; its output is in `folder`."""
    tiny_checkpoint.write(folder)
    command = ["tests/partners/slow_environment.py", "serve"]
    command += ["--env.rollout_server_url", server, "--env.tokenizer_name", str(folder)]
    with (folder / "environment.log").open("wb") as log:
        process = subprocess.Popen(
            [PYTHON, *command],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            yield process
        finally:
            process.terminate()
            process.wait(60)


class StockTrainer:
    """Trainer of the reference protocol, which requests batches without training."""

    def __init__(self, http: httpx.Client, *, num_steps: int) -> None:
        self._http = http
        self.groups = 0
        registration = REGISTRATION | {
            "batch_size": 2 * GROUP_SIZE,
            "max_token_len": 64,
            "starting_step": 0,
            "num_steps": num_steps,
        }
        self._http.post("/register", json=registration).raise_for_status()
        self.train()

    def train(self) -> int:
        """Request all batches that are ready; return the number of groups so far."""
        while (batch := self._http.get("/batch").json()["batch"]) is not None:
            self.groups += len(batch)
        return self.groups

    def produced_in(self, seconds: float) -> int:
        """Train for some seconds; return the number of groups that arrived."""
        before, deadline = self.train(), time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.train()
            time.sleep(0.1)
        return self.train() - before


def change(verb: RunVerb) -> None:
    run = Run.objects.get(is_default=True)
    change_status(run_id=run.pk, verb=verb, actor="test", now=datetime.now(UTC))


@pytest.mark.parametrize("num_steps", [1_000_000, -1])
def test_an_environment_pauses_with_its_run(
    server: str, http: httpx.Client, tmp_path: Path, num_steps: int
) -> None:
    trainer = StockTrainer(http, num_steps=num_steps)
    with environment(server, tmp_path) as process:
        eventually(lambda: trainer.train() > 10, seconds=120)
        change(RunVerb.PAUSE)
        time.sleep(QUIET_SECONDS)
        trainer.train()
        while_paused = trainer.produced_in(QUIET_SECONDS)
        is_alive = process.poll() is None
        change(RunVerb.RESUME)
        after = trainer.produced_in(QUIET_SECONDS)

    log = (tmp_path / "environment.log").read_text()[-3000:]
    assert is_alive, log
    assert while_paused == 0, log
    assert after > 10, log
