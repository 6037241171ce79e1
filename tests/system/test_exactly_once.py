"""Acknowledged data is served exactly once, whichever process was killed in between."""

import os
import signal
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.buffer_factories import REGISTRATION, group
from tests.server import NO_RAY, Server, running_server, wait_until

pytestmark = pytest.mark.system

PUSHERS = 3
GROUPS_EACH = 40


class Pusher(threading.Thread):
    """Producer that pushes each group until it is acknowledged, like a client with keys."""

    def __init__(self, where: dict[str, str], first_mark: int) -> None:
        super().__init__(daemon=True)
        self.where = where
        self.marks = range(first_mark, first_mark + GROUPS_EACH)
        self.acknowledged: list[int] = []

    def run(self) -> None:
        for mark in self.marks:
            while not self._push(mark):
                time.sleep(0.1)
            self.acknowledged.append(mark)
            time.sleep(0.02)

    def _push(self, mark: int) -> bool:
        try:
            answer = httpx.post(
                f"{self.where['url']}/scored_data",
                json=group(mark=mark, sequences=1),
                headers={"Idempotency-Key": f"group {mark}"},
                timeout=10,
            )
        except httpx.HTTPError:
            return False
        return answer.status_code == 200


def kill(server: Server, *words: str) -> None:
    """Kill one of the server's processes with SIGKILL."""
    os.kill(server.children(*words)[0], signal.SIGKILL)


def acknowledged(pushers: list[Pusher]) -> int:
    return sum(len(pusher.acknowledged) for pusher in pushers)


def train(server: Server) -> list[int]:
    """Return the marks of all groups, served until none are left."""
    got: list[int] = []
    while batch := server.get("/batch")["batch"]:
        got += [group["tokens"][0][0] for group in batch]
    return got


def ledger(server: Server) -> dict[str, Any]:
    groups: dict[str, Any] = server.get("/api/v1/runs/default/ledger")["groups"]
    return groups


def test_acknowledged_groups_are_served_exactly_once_after_kill_9(tmp_path: Path) -> None:
    where: dict[str, str] = {}
    pushers = [Pusher(where, first_mark=1000 * number) for number in range(1, PUSHERS + 1)]
    with running_server(tmp_path / "var", RAY_ADDRESS=NO_RAY) as server:
        where["url"] = server.url
        # A part that dies during the start makes the start fail.
        wait_until(lambda: "Ready on" in server.log(), seconds=300, what="every part is ready")
        server.post("/register", REGISTRATION)
        for pusher in pushers:
            pusher.start()
        wait_until(lambda: acknowledged(pushers) > 20, seconds=60, what="pushes are acknowledged")
        kill(server, "config.web")
        wait_until(lambda: acknowledged(pushers) > 40, seconds=60, what="the web is back")
        kill(server, "postgres", "-D")
        wait_until(lambda: acknowledged(pushers) > 60, seconds=60, what="PostgreSQL is back")
        server.process.kill()
        server.process.wait()
    with running_server(tmp_path / "var", RAY_ADDRESS=NO_RAY) as server:
        where["url"] = server.url
        for pusher in pushers:
            pusher.join(60)
        everything = sorted(mark for pusher in pushers for mark in pusher.marks)

        got = train(server)

        assert sorted(got) == everything
        balance = ledger(server)
        assert (balance["accepted"], balance["balanced"]) == (len(everything), True)
        done = datetime.now(UTC).isoformat()
        audited = wait_until(
            lambda: (
                ((audit := server.get("/api/v1/runs/default/ledger"))["audited_at"] or "") > done
                and audit
            ),
            seconds=120,
            what="the rows are counted against the ledger",
        )
        assert audited["problem"] == ""
