"""A trainer with a window of batches is killed in the middle of a step, and continues."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import processes
from tests.buffer_factories import REGISTRATION, group
from tests.server import ADMIN_TOKEN, NO_RAY, ROOT, Server, environment, running_server, wait_until

pytestmark = [
    pytest.mark.system,
    pytest.mark.release("starts, loads and kills servers for minutes"),
]

BATCHES = 8
KILLED_AT = 3


@contextmanager
def training(server: Server, log: Path) -> Iterator[Any]:
    with log.open("wb") as out:
        words = ["-m", "tests.system.window_trainer", server.url, "default", ADMIN_TOKEN]
        process = processes.start(
            [sys.executable, *words],
            cwd=ROOT,
            env=environment(server.var, server.port, PYTHONPATH=".:platform:client"),
            stdout=out,
            stderr=out,
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def received(log: Path) -> list[tuple[int, str]]:
    """Return the ordinals and digests of the batches that a trainer has received."""
    lines = log.read_text().splitlines()
    return [(int(line.split()[0]), line.split()[1]) for line in lines]


def states(server: Server) -> dict[int, str]:
    rows = server.get("/api/v1/runs/default/batches")["results"]
    return {row["ordinal"]: row["state"] for row in rows}


def test_the_batches_of_a_killed_trainer_are_served_again(tmp_path: Path) -> None:
    with running_server(tmp_path / "var", RAY_ADDRESS=NO_RAY) as server:
        wait_until(lambda: "Ready on" in server.log(), seconds=300, what="every part is ready")
        server.post("/register", REGISTRATION | {"batch_size": 2, "num_steps": BATCHES})
        for mark in range(BATCHES):
            server.post("/scored_data", group(mark=mark, sequences=2))

        first, second = tmp_path / "first.log", tmp_path / "second.log"
        with training(server, first) as killed:
            wait_until(
                lambda: len(received(first)) == KILLED_AT, seconds=120, what="it trains on batch 3"
            )
            killed.kill()
        kept = states(server)
        assert [ordinal for ordinal, state in kept.items() if state == "confirmed"] == [2, 1]
        window = [ordinal for ordinal, state in kept.items() if state == "leased"]
        assert KILLED_AT in window

        with training(server, second) as process:
            assert process.wait(120) == 0, second.read_text()

        again = received(second)
        assert [ordinal for ordinal, _ in again] == [*range(KILLED_AT, BATCHES + 1)]
        assert again[0] == received(first)[-1]
        assert set(states(server).values()) == {"confirmed"}
        assert server.get("/api/v1/runs/default")["status"] == "completed"
