"""TransferQueue on a real local Ray, with its samples stored by a real server."""

import json
import logging
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from rolldeck.http import Call, Connection
from tests import processes
from tests.server import ADMIN_TOKEN, NO_RAY, ROOT, Server, environment, running_server, wait_until

pytestmark = pytest.mark.partner

PYTHON: Final = ROOT / ".partners" / "transferqueue" / "bin" / "python"
PROGRAM: Final = "tests/partners/transfer_queue_program.py"
ACKNOWLEDGED: Final = 12
"""Batches before the kill."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("server") / "var", RAY_ADDRESS=NO_RAY) as started:
        yield started


def new_run(server: Server, name: str) -> str:
    with Connection(server.url, ADMIN_TOKEN) as connection:
        body = {"name": name, "kind": "outside", "start": True}
        connection.json(Call(method="POST", path="/api/v1/runs", json=body))
    return name


def started(server: Server, log: Path, *command: str) -> "subprocess.Popen[Any]":
    with log.open("wb") as out:
        return processes.start(
            [str(PYTHON), PROGRAM, *command],
            cwd=ROOT,
            env=environment(
                server.var,
                server.port,
                PYTHONPATH=str(ROOT / "client"),
                ROLLDECK_URL=server.url,
                ROLLDECK_TOKEN=ADMIN_TOKEN,
                RAY_USAGE_STATS_ENABLED="0",
                OMP_NUM_THREADS="1",
            ),
            stdout=out,
            stderr=out,
        )


def printed(log: Path) -> dict[str, Any] | None:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line[:2] == '{"']
    return json.loads(lines[-1]) if lines else None


def result_of(server: Server, log: Path, *command: str) -> dict[str, Any]:
    process = started(server, log, *command)
    assert process.wait(240) == 0, log.read_text(errors="replace")[-6000:]
    found = printed(log)
    assert found is not None
    return found


def test_every_acknowledged_sample_survives_kills(server: Server, tmp_path: Path) -> None:
    run = new_run(server, "kills")
    log, acknowledged = tmp_path / "produce.log", tmp_path / "acknowledged"
    acknowledged.touch()
    process = started(server, log, "produce", run, str(acknowledged))
    pids: list[int] = []
    try:

        def has_produced() -> bool:
            assert process.poll() is None, log.read_text(errors="replace")[-6000:]
            return len(acknowledged.read_text().splitlines()) >= ACKNOWLEDGED

        wait_until(has_produced, seconds=180, what="the producer has pushed batches")
        found = printed(log)
        assert found is not None
        pids = found["children"]
        # In the middle of a push: the controller first, then the storage client and the driver.
        for pid in (found["controller"], found["producer"], process.pid):
            os.kill(pid, signal.SIGKILL)
    finally:
        process.kill()
        for pid in pids:
            if not processes.is_gone(pid):
                os.kill(pid, signal.SIGKILL)
        process.wait(10)
    firsts = [int(line) for line in acknowledged.read_text().splitlines()]
    expected = {first + number for first in firsts for number in range(4)}

    result = result_of(server, tmp_path / "reconcile.log", "reconcile", run)

    numbers = result["numbers"]
    assert expected <= set(numbers)
    # The batch in progress may be stored whole as well.
    assert len(numbers) % 4 == 0
    assert len(numbers) <= len(expected) + 4
    assert result["wrong"] == []
    assert result["keyless"] == []
    assert result["restored"] == {"keyless": 4, "prompts": 1, "train": len(numbers)}
    assert result["values"] == 5 * (len(numbers) + 4)
    assert result["status"] == {"state": "finished"}
    assert result["left"] == 0


def test_values_that_cannot_be_stored_are_refused_by_name(server: Server, tmp_path: Path) -> None:
    run = new_run(server, "refusals")
    result = result_of(server, tmp_path / "refuse.log", "refuse", run)

    complex_, object_, set_, integer = result["messages"]
    assert "torch.complex64 cannot be stored" in complex_
    assert "a value of the type object cannot be stored" in object_
    assert set_ == ""
    assert integer != ""
    # Two samples: the one with the set, and the one with the odd values.
    assert result["kept"] == ["", "", "bools", "empty", "none", "value"]
    assert (result["empty"], result["bools"], result["none"]) == (0, [True, False], True)


def test_throughput_beside_the_storage_of_transfer_queue(
    server: Server, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    run = new_run(server, "throughput")
    result = result_of(server, tmp_path / "compare.log", "compare", run)

    record_property("figures", json.dumps(result))
    logging.getLogger(__name__).warning("%s", json.dumps(result))
    assert set(result) == {"SimpleStorage", "rolldeck"}
    assert all(figure > 0 for figures in result.values() for figure in figures.values())
