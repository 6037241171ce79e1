"""Drive the real server as stock environments (aiohttp) and trainers (requests) do."""

import asyncio
import gzip
import json
import socket
import statistics
import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest
import requests
from django.db import connection

from buffer.items.models import Batch
from runs.lifecycle.models import Run
from tests.buffer_factories import ENVIRONMENT, REGISTRATION, fragment, group, push
from tests.factories import bearer, make_run
from tests.ledgers import miscounts
from tests.live_server import serving
from tests.waiting import eventually

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def url() -> Iterator[str]:
    with serving() as base:
        yield base
    connection.close()


async def roll_out(url: str, groups: list[dict[str, Any]]) -> dict[str, Any]:
    """Act as the stock environment: register, push (gzipped when large), poll, disconnect."""
    async with aiohttp.ClientSession() as session:
        async with session.get(f"{url}/wandb_info") as response:
            assert (await response.json())["group"] == "a group"
        async with asyncio.timeout(60):
            while True:
                async with session.post(f"{url}/register-env", json=ENVIRONMENT) as response:
                    answer = await response.json()
                if answer["status"] == "success":
                    break
                await asyncio.sleep(0.05)
        for group in groups:
            raw = json.dumps(group | {"env_id": answer["env_id"]}).encode()
            headers = {"Content-Type": "application/json"}
            if len(raw) > 1024:
                raw, headers = gzip.compress(raw), headers | {"Content-Encoding": "gzip"}
            async with session.post(f"{url}/scored_data", data=raw, headers=headers) as response:
                assert response.status == 200, await response.text()
        status_env = session.get(f"{url}/status-env", json={"env_id": answer["env_id"]})
        async with status_env as response:
            status: dict[str, Any] = await response.json()
        leave = session.post(f"{url}/disconnect-env", json={"env_id": answer["env_id"]})
        async with leave as response:
            assert (await response.json())["status"] == "success"
    return status


def test_a_stock_environment_and_a_stock_trainer_exchange_groups(url: str) -> None:
    groups = [group(mark=mark, tokens=500) for mark in range(8)]
    trained: list[int] = []

    def train() -> None:
        requests.get(f"{url}/reset_data", timeout=60)
        requests.post(f"{url}/register", json=REGISTRATION, timeout=60)
        while len(trained) < 8:
            batch = requests.get(f"{url}/batch", timeout=60).json()["batch"]
            trained.extend(group["tokens"][0][0] for group in batch or [])
            time.sleep(0 if batch else 0.02)

    trainer = threading.Thread(target=train)
    trainer.start()
    eventually(lambda: requests.get(f"{url}/info", timeout=60).json()["batch_size"] == 4)
    status = asyncio.run(roll_out(url, groups))
    trainer.join(20)

    assert trained == list(range(8))
    assert status["env_weight"] == 1.0


def start_reading_a_batch(url: str, size: int) -> bytes:
    """Request a batch, read `size` bytes of the answer and disconnect."""
    address = urlsplit(url)
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * 1024)
        client.connect((address.hostname, address.port))
        client.sendall(b"GET /batch HTTP/1.1\r\nHost: localhost\r\n\r\n")
        read = b""
        while len(read) < size:
            read += client.recv(4096)
    return read


def test_an_interrupted_response_is_repeated_with_the_same_bytes(url: str) -> None:
    requests.post(f"{url}/register", json=REGISTRATION, timeout=60)
    # Larger than what the kernel buffers between two sockets.
    big = [group(mark=mark, sequences=2, tokens=400_000) for mark in (1, 2, 3, 4)]
    for one in big:
        assert requests.post(f"{url}/scored_data", json=one, timeout=30).status_code == 200

    head = start_reading_a_batch(url, 100_000)
    eventually(lambda: Batch.objects.get().sending_since is None)
    answer = requests.get(f"{url}/batch", headers={"Accept-Encoding": "identity"}, timeout=30)

    first_chunk = head.partition(b"\r\n\r\n")[2].partition(b"\r\n")[2]
    begun = first_chunk[:60_000]
    assert answer.content.startswith(begun)
    assert [group["tokens"][0][0] for group in answer.json()["batch"]] == [1, 2]
    assert requests.get(f"{url}/status", timeout=60).json()["current_step"] == 1
    following = requests.get(f"{url}/batch", timeout=30).json()["batch"]
    assert [group["tokens"][0][0] for group in following] == [3, 4]
    assert miscounts(Run.objects.get().pk) == []


def test_two_anonymous_trainers_behind_one_address_never_get_the_same_group(url: str) -> None:
    registration = REGISTRATION | {"batch_size": 1, "num_steps": 1000}
    requests.post(f"{url}/register", json=registration, timeout=60)
    groups = [group(mark=mark, sequences=1) for mark in range(120)]
    requests.post(f"{url}/scored_data_list", json=groups, timeout=60)
    got: list[int] = []

    def train() -> None:
        with requests.Session() as session:
            while batch := session.get(f"{url}/batch", timeout=60).json()["batch"]:
                got.extend(group["tokens"][0][0] for group in batch)

    trainers = [threading.Thread(target=train) for _ in range(3)]
    for trainer in trainers:
        trainer.start()
    for trainer in trainers:
        trainer.join(60)

    assert sorted(got) == list(range(120))
    assert requests.get(f"{url}/status", timeout=60).json() == {
        "current_step": 120,
        "queue_size": 0,
    }


def test_a_waiting_trainer_is_answered_soon_after_the_push_that_completes_its_batch(
    url: str,
) -> None:
    run = make_run(name="alpha", epoch=1, policy_step=0, batch_size=1, max_staleness=1000)
    worker, trainer = bearer("worker", run=run), bearer("trainer", run=run)
    base = f"{url}/api/v1/runs/alpha"
    fleet, consumer = requests.Session(), requests.Session()
    consumer.post(f"{base}/trainers", json={"resume": True}, headers=trainer)
    delays = []

    for number in range(15):
        received: list[float] = []

        def take() -> None:
            wait = {"wait_seconds": 20}
            answer = consumer.post(f"{base}/batches/next", json=wait, headers=trainer)
            received.append(time.perf_counter())  # noqa: B023 joined within the loop
            assert answer.status_code == 200
            consumer.post(
                f"{base}/batches/{Batch.objects.get(state='leased').pk}/ack",
                json={"fence": Batch.objects.get(state="leased").fence},
                headers=trainer,
            )
            connection.close()

        waiter = threading.Thread(target=take)
        waiter.start()
        time.sleep(0.05)
        body = push(fragment(number=number))
        assert fleet.post(f"{base}/fragments", data=body, headers=worker).status_code == 200
        pushed = time.perf_counter()
        waiter.join(25)
        delays.append(received[0] - pushed)

    assert statistics.median(delays) < 0.5  # woken, not polling once a second
