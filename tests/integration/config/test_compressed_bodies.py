"""Compressed bodies cost a running server little, independent of the sender."""

import gzip
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx
import pytest
from django.db import connection

from buffer.items.models import TrajectoryGroup
from tests.buffer_factories import ENVIRONMENT, REGISTRATION, body, group
from tests.database import delete_rows
from tests.factories import bearer, make_run
from tests.web_process import WebProcess, web_process
from web import zstd

MIB: Final = 1024 * 1024
EMPTY: Final = {
    "gzip": gzip.compress(b"", mtime=0),
    "zstd": zstd.compress(b""),
}
PUSH: Final = "/atropos/packed/scored_data"
TICKS: Final = os.sysconf("SC_CLK_TCK")


class Server(NamedTuple):
    """A running server with an administrator's headers."""

    web: WebProcess
    admin: dict[str, str]


@pytest.fixture(scope="module")
def server(
    django_db_setup: None, django_db_blocker: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    log = tmp_path_factory.mktemp("packed") / "web.log"
    with django_db_blocker.unblock():
        try:
            with web_process(log) as running:
                make_run(name="packed", kind="outside")
                for path, what in (("register", REGISTRATION), ("register-env", ENVIRONMENT)):
                    url = f"{running.url}/atropos/packed/{path}"
                    httpx.post(url, json=what, timeout=30).raise_for_status()
                yield Server(running, bearer("admin"))
        finally:
            delete_rows()
            connection.close()


def cpu_seconds(server: Server) -> float:
    """Return the server's processor time so far."""
    words = Path(f"/proc/{server.web.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / TICKS


def send(server: Server, path: str, encoding: str, size: int, **headers: str) -> httpx.Response:
    unit = EMPTY[encoding]
    return httpx.post(
        server.web.url + path,
        content=unit * (size // len(unit)),
        headers={"Content-Type": "application/json", "Content-Encoding": encoding, **headers},
        timeout=60,
    )


@pytest.mark.django_db
@pytest.mark.parametrize("encoding", EMPTY)
@pytest.mark.parametrize("size", [2 * MIB, 4 * MIB, 32 * MIB - 20])
def test_empty_gzip_members_use_little_time(server: Server, encoding: str, size: int) -> None:
    before = cpu_seconds(server)
    refused = send(server, PUSH, encoding, size)

    assert (refused.status_code, refused.json()["code"]) == (413, "too_large")
    assert refused.json()["errors"][0]["field"] == "body"
    assert cpu_seconds(server) - before < 1.0


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/api/v1/runs/packed/trainers", "/api/v1/runs", "/api/v1/tokens"])
def test_a_body_without_credentials_is_not_unpacked(server: Server, path: str) -> None:
    # A bomb within the limits, which would decompress to 200 MiB.
    bomb = zstd.compress(os.urandom(2 * MIB) + bytes(198 * MIB))
    before = cpu_seconds(server)
    headers = {"Content-Type": "application/json", "Content-Encoding": "zstd"}
    answers = [
        httpx.post(server.web.url + path, content=bomb, headers=headers, timeout=60)
        for _ in range(10)
    ]

    assert {answer.status_code for answer in answers} == {401}
    assert cpu_seconds(server) - before < 1.0
    damaged = httpx.post(server.web.url + path, content=b"no zstd", headers=headers, timeout=60)
    assert damaged.status_code == 401
    known = httpx.post(
        server.web.url + path, content=b"no zstd", headers=headers | server.admin, timeout=60
    )
    assert (known.status_code, known.json()["code"]) == (400, "invalid")


@pytest.mark.django_db
def test_pushes_continue_under_an_attack(server: Server) -> None:
    before = TrajectoryGroup.objects.count()
    over = threading.Event()

    def attack(encoding: str) -> set[int]:
        statuses = set()
        while not over.is_set():
            statuses.add(send(server, PUSH, encoding, 4 * MIB).status_code)
        return statuses

    with ThreadPoolExecutor(6) as pool:
        attackers = [pool.submit(attack, encoding) for encoding in [*EMPTY] * 3]
        try:
            for mark in range(20):
                packed = gzip.compress(body(group(mark=mark)))
                headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
                pushed = httpx.post(
                    server.web.url + PUSH, content=packed, headers=headers, timeout=10
                )
                assert pushed.status_code == 200, pushed.text
        finally:
            over.set()
        assert {status for attacker in attackers for status in attacker.result()} == {413}

    assert TrajectoryGroup.objects.count() == before + 20
    assert "Traceback" not in server.web.log(), server.web.log()[-5000:]
