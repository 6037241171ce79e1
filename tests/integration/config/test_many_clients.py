"""Requests of machines: few threads, persistent connections, and waiting without cost."""

import asyncio
import json
import socket
import statistics
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from django.db import connection

from config.database_connections import MACHINE_THREADS
from config.machines import Machines
from tests.buffer_factories import REGISTRATION, group
from tests.factories import bearer, make_run
from tests.live_server import serving
from tests.waiting import eventually

pytestmark = pytest.mark.django_db(transaction=True)
WAITERS = 500


@pytest.fixture
def url() -> Iterator[str]:
    with serving() as base:
        yield base
    connection.close()


def outside_run(url: str, trainers: int) -> tuple[str, list[dict[str, str]]]:
    """Create a run with batches of two sequences; return its URL and its trainers' headers."""
    run = make_run(name="many", kind="outside")
    headers = [bearer("trainer", run=run) for _ in range(trainers)]
    base = f"{url}/atropos/many"
    httpx.post(
        f"{base}/register", json=REGISTRATION | {"batch_size": 2}, headers=headers[0], timeout=60
    )
    httpx.get(f"{base}/batch", headers=headers[0], timeout=60)
    for header in headers:
        httpx.post(
            f"{url}/api/v1/runs/many/trainers", json={}, headers=header, timeout=60
        ).raise_for_status()
    return base, headers


async def send_request(url: str, path: str, headers: dict[str, str], wait_seconds: float) -> Any:
    """Send one long poll over a separate socket; return a coroutine for its status."""
    where = urlsplit(url)
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    body = json.dumps({"wait_seconds": wait_seconds}).encode()
    lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    writer.write("\r\n".join(lines).encode() + b"\r\nContent-Type: application/json\r\n\r\n" + body)
    await writer.drain()
    return reader, writer


async def status_of(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
    line = await reader.readline()
    writer.close()
    return int(line.split()[1]) if line else 0


def connections() -> int:
    """Return the number of connections of others, after closing the thread's own."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND pid <> pg_backend_pid()"
        )
        (count,) = cursor.fetchone()
    connection.close()
    return int(count)


async def heartbeat_milliseconds(url: str, count: int) -> list[float]:
    times = []
    async with httpx.AsyncClient(timeout=60) as client:
        for _ in range(count):
            began = time.perf_counter()
            (await client.get(f"{url}/status")).raise_for_status()
            times.append((time.perf_counter() - began) * 1e3)
    return times


def test_five_hundred_trainers_wait_without_threads_or_connections(url: str) -> None:
    base, [trainer] = outside_run(url, 1)

    async def wait_and_push() -> tuple[list[int], list[float], int]:
        waiters = [
            await send_request(url, "/api/v1/runs/many/batches/next", trainer, wait_seconds=60)
            for _ in range(WAITERS)
        ]
        beats = await heartbeat_milliseconds(url, 50)
        held = await asyncio.to_thread(connections)
        async with httpx.AsyncClient(timeout=60) as client:
            pushed = await client.post(f"{base}/scored_data", json=group(), headers=trainer)
            pushed.raise_for_status()
        # One trainer: any of its requests returns the batch that it holds.
        statuses = await asyncio.gather(*(status_of(*waiter) for waiter in waiters))
        return statuses, beats, held

    statuses, beats, held = asyncio.run(wait_and_push())

    assert statuses == [200] * WAITERS
    assert held <= MACHINE_THREADS + 2
    assert statistics.median(beats) < 500  # about 5 ms on an idle machine


def test_each_batch_is_leased_to_one_waiting_trainer(url: str) -> None:
    base, trainers = outside_run(url, 6)

    async def wait_and_push() -> list[int]:
        waiters = [
            await send_request(url, "/api/v1/runs/many/batches/next", trainer, wait_seconds=3)
            for trainer in trainers
        ]
        async with httpx.AsyncClient(timeout=60) as client:
            for mark in range(4):
                answer = await client.post(
                    f"{base}/scored_data", json=group(mark=mark), headers=trainers[0]
                )
                answer.raise_for_status()
        return list(await asyncio.gather(*(status_of(*waiter) for waiter in waiters)))

    assert sorted(asyncio.run(wait_and_push())) == [200] * 4 + [204] * 2


def test_a_closed_connection_yields_to_the_next_request(url: str) -> None:
    base, trainers = outside_run(url, 2)

    async def leave_and_push() -> int:
        _, leaving = await send_request(
            url, "/api/v1/runs/many/batches/next", trainers[0], wait_seconds=20
        )
        staying = await send_request(
            url, "/api/v1/runs/many/batches/next", trainers[1], wait_seconds=20
        )
        # Both wait before the first one leaves: the server has answered later requests.
        await heartbeat_milliseconds(url, 5)
        leaving.transport.abort()
        async with httpx.AsyncClient(timeout=60) as client:
            await client.post(f"{base}/scored_data", json=group(), headers=trainers[1])
        return await status_of(*staying)

    began = time.monotonic()
    assert asyncio.run(leave_and_push()) == 200
    assert time.monotonic() - began < 10


def has_any(backends: list[int]) -> bool:
    """Return whether the database still has any of these server processes."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM pg_stat_activity WHERE pid = ANY(%s)", [backends])
        return cursor.fetchone() is not None


def test_a_connection_that_the_server_ended_is_replaced_before_it_is_used(url: str) -> None:
    httpx.post(f"{url}/register", json=REGISTRATION, timeout=60).raise_for_status()
    for _ in range(3):
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pid, pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            ended = [pid for pid, _ in cursor.fetchall()]
            eventually(lambda: not has_any(ended), 30)  # noqa: B023 called at once

        assert httpx.get(f"{url}/status", timeout=60).status_code == 200


def test_the_atropos_routes_ignore_cookies(url: str) -> None:
    answer = httpx.get(f"{url}/info", headers={"Cookie": "sessionid=anything"}, timeout=60)

    assert answer.json() == {"batch_size": -1, "max_token_len": -1}
    assert "Set-Cookie" not in answer.headers


@pytest.mark.parametrize(
    ("path", "media_type"),
    [
        ("/info", "application/json"),
        ("/api/v1/runs", "application/problem+json"),
        ("/api/v1/runs/alpha/groups", "application/problem+json"),
    ],
)
def test_a_foreign_host_is_refused(url: str, path: str, media_type: str) -> None:
    answer = httpx.get(f"{url}{path}", headers={"Host": "evil.example"}, timeout=60)

    assert (answer.status_code, answer.headers["Content-Type"]) == (400, media_type)
    assert "ROLLDECK_ALLOWED_HOSTS" in answer.json()["detail"]


async def test_a_query_that_is_not_utf8_is_refused() -> None:
    async def others(*_: Any) -> None:
        raise AssertionError("a machine's request was passed on")

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": "/api/v1/runs/alpha/groups", "headers": []}
    await Machines(others)(scope | {"query_string": b"q=\xff"}, receive, send)

    problem = json.loads(b"".join(message.get("body", b"") for message in sent))
    assert (sent[0]["status"], problem["status"]) == (400, 400)
    assert problem["detail"] == "the query string is not valid UTF-8"


def test_a_path_that_is_not_utf8_is_refused(url: str) -> None:
    where = urlsplit(url)
    with socket.create_connection((where.hostname or "", where.port or 0)) as raw:
        raw.sendall(b"GET /atropos/%ff/info HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert raw.recv(100).split()[1] in {b"400", b"404"}


def test_a_head_request_has_no_body(url: str) -> None:
    answer = httpx.head(f"{url}/info")

    assert (answer.status_code, answer.content) == (200, b"")


@pytest.mark.parametrize("route", ["batch", "reset_data"])
def test_a_head_request_changes_nothing(url: str, route: str) -> None:
    assert httpx.head(f"{url}/{route}").status_code == 405
