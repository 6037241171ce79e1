"""Kill each part of a learning run; it recovers and reaches its target.

`make bench ROWS=healing` measures the times, on an idle machine.
"""

import logging
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.server import Server, running_server, wait_until

MARK = 450.0
HEALS_WITHIN_SECONDS = 180.0
# The imports of a new process take seconds on an idle machine, and minutes on a loaded one.
STARTS_WITHIN_SECONDS = 180.0
LEARNS_WITHIN_SECONDS = 600.0

pytestmark = [
    pytest.mark.system,
    pytest.mark.release("starts, loads and kills servers for minutes"),
]
logger = logging.getLogger(__name__)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("healing")) as server:
        wait_until(lambda: "Ready on" in server.log(), seconds=300, what="every part is ready")
        yield server


def fleet(server: Server) -> Any:
    return server.get("/api/v1/runs/healing/fleet")


def accepted(server: Server) -> int:
    return int(server.get("/api/v1/runs/healing/ledger")["fragments"]["accepted"])


def kinds(server: Server) -> list[str]:
    return [
        event["kind"] for event in server.get("/api/v1/runs/healing/events?limit=200")["results"]
    ]


def is_flowing(server: Server, *, since: int) -> bool:
    """Return whether more data arrived than was in transit at the time of the kill."""
    return accepted(server) > since + 16


def heals(server: Server, pids: list[int], *, healed: Callable[[], bool] = lambda: True) -> float:
    """Kill `pids` at once, and return the seconds until data flows again; wait for successors."""
    assert pids
    before, started = accepted(server), time.monotonic()
    for pid in pids:
        with suppress(ProcessLookupError):  # a pool process that has ended
            os.kill(pid, signal.SIGKILL)
    wait_until(
        lambda: is_flowing(server, since=before),
        seconds=HEALS_WITHIN_SECONDS,
        what=f"data flows after kill -9 of {pids}",
    )
    seconds = time.monotonic() - started
    wait_until(healed, seconds=STARTS_WITHIN_SECONDS, what=f"successors of {pids} run")
    logger.info("healed %s after %.1f s", pids, seconds)
    return seconds


def is_new(server: Server, part: tuple[str, ...], old: set[int]) -> bool:
    return bool(set(server.children(*part)) - old)


def worker_pids(server: Server) -> list[int]:
    return [w["pid"] for w in fleet(server)["workers"] if w["state"] == "running" and w["pid"]]


def slot_pids(server: Server) -> list[int]:
    return sorted(
        {
            slot["pid"]
            for worker in fleet(server)["workers"]
            for slot in worker["slots"]
            if slot["state"] in {"stepping", "waiting"} and slot["pid"]
        }
    )


def test_a_learning_run_survives_the_death_of_every_part(server: Server) -> None:
    started = time.monotonic()
    server.post(
        "/api/v1/runs", {"name": server.free_name("healing"), "preset": "cartpole", "start": True}
    )
    trainer = server.start_trainer("healing")
    try:
        wait_until(lambda: is_flowing(server, since=0), seconds=300, what="the first fragments")

        env_worker = slot_pids(server)[:1]
        heals(server, env_worker, healed=lambda: len(set(slot_pids(server)) - set(env_worker)) == 2)
        wrapper = worker_pids(server)[:1]
        heals(server, wrapper, healed=lambda: len(set(worker_pids(server)) - set(wrapper)) == 2)
        for part in (("celery", "worker"), ("config.web",)):
            old = set(server.children(*part))
            heals(server, sorted(old), healed=lambda part=part, old=old: is_new(server, part, old))
        # The head, and with it the manager and all workers.
        for part in (("gcs_server",), ("rollouts.fleet.gateway.command",)):
            old = set(server.children(*part))
            heals(server, sorted(old), healed=lambda part=part, old=old: is_new(server, part, old))

        assert trainer.poll() is None, (server.var / "trainer.log").read_text()[-2000:]
        reach_the_mark(server, seconds=LEARNS_WITHIN_SECONDS - (time.monotonic() - started))
        ledger = server.get("/api/v1/runs/healing/ledger")
        assert ledger["fragments"]["balanced"]
    finally:
        trainer.terminate()
        trainer.wait(10)


def nothing_is_open(server: Server) -> bool:
    ledger = server.get("/api/v1/runs/healing/ledger")["fragments"]
    return bool(ledger["balanced"]) and ledger["queued"] == ledger["leased"] == 0


def reach_the_mark(server: Server, *, seconds: float) -> None:
    def recent() -> bool:
        rows = server.get("/api/v1/runs/healing/episodes?limit=1")["results"]
        return bool(rows) and (rows[-1]["recent_return_mean"] or 0) >= MARK

    wait_until(recent, seconds=seconds, what=f"a mean return of {MARK}")


def test_logs_of_a_run_that_was_killed_half_way_have_no_traceback_of_the_platform(
    server: Server,
) -> None:
    wait_until(lambda: not nothing_is_open(server), seconds=60, what="open fragments")
    server.post("/api/v1/runs/healing/kill", {"reason": "the test is over"})
    wait_until(
        lambda: server.get("/api/v1/runs/healing")["status"] == "stopped",
        seconds=60,
        what="stopped",
    )

    wait_until(lambda: not worker_pids(server), seconds=60, what="no worker is left")
    wait_until(lambda: nothing_is_open(server), seconds=60, what="losses are counted")
    assert "items_dropped" in kinds(server)
    logs = list(Path(server.var, "log").glob("web*"))
    assert logs
    assert not any("Traceback" in path.read_text(errors="replace") for path in logs)
