"""A server that stalls stores each push once, although its clients time out and repeat pushes."""

import random
import select
import signal
import socket
import threading
import time
from pathlib import Path

import httpx
import psutil
import pytest

from buffer.items.models import TrajectoryGroup
from tests.buffer_factories import REGISTRATION, body, group
from tests.waiting import eventually
from tests.web_process import WebProcess, web_process

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.full("hundreds of pushes time out while the server is stopped"),
]

CLIENTS = 10
PUSHES_PER_CLIENT = 20
TIMEOUT_SECONDS = 0.15


def serving_processes(web: WebProcess, count: int) -> list[psutil.Process]:
    """Return the processes that serve requests: the started one, or its children."""
    started = psutil.Process(web.process.pid)
    if count == 1:
        return [started]
    eventually(lambda: len(started.children()) >= count, 30)
    return [child for child in started.children() if child.net_connections("tcp")] or [started]


def push_until_answered(port: int, content: bytes) -> int:
    """Send a push as the stock client does: on a new connection, repeated after a timeout."""
    request = (
        b"POST /scored_data HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        b"Content-Length: %d\r\n\r\n" % len(content) + content
    )
    attempts = 0
    while True:
        attempts += 1
        try:
            with socket.create_connection(("127.0.0.1", port), TIMEOUT_SECONDS) as client:
                client.settimeout(TIMEOUT_SECONDS)
                client.sendall(request)
                # An answer that arrives with the timeout is read: a lost one is not detected.
                select.select([client], [], [], TIMEOUT_SECONDS)
                client.setblocking(False)
                answer = client.recv(1024)
            if answer.startswith(b"HTTP/1.1 200"):
                return attempts
        except OSError:
            continue


def stall(processes: list[psutil.Process], *, done: threading.Event, is_all: bool) -> None:
    chance = random.Random(7)
    while not done.is_set():
        stopped = processes if is_all else [chance.choice(processes)]
        for process in stopped:
            process.send_signal(signal.SIGSTOP)
        time.sleep(chance.uniform(0.5, 2.5) * TIMEOUT_SECONDS)  # until clients have timed out
        for process in stopped:
            process.send_signal(signal.SIGCONT)
        done.wait(chance.uniform(0.02, 0.2))


@pytest.mark.parametrize(
    ("processes", "is_all"),
    [(1, True), (2, True), (2, False)],
    ids=["one process", "both processes", "one of two processes"],
)
def test_each_of_200_pushes_is_stored_once_by_a_server_that_stalls(
    tmp_path: Path, processes: int, is_all: bool
) -> None:
    attempts: list[int] = []
    done = threading.Event()
    with web_process(tmp_path / "web.log", module=("config.web", "{fd}", str(processes))) as web:
        httpx.post(f"{web.url}/register", json=REGISTRATION, timeout=30).raise_for_status()

        def work(number: int) -> None:
            for place in range(PUSHES_PER_CLIENT):
                mark = number * PUSHES_PER_CLIENT + place
                attempts.append(push_until_answered(web.port, body(group(scores=[mark, mark]))))

        clients = [threading.Thread(target=work, args=[number]) for number in range(CLIENTS)]
        stalling = threading.Thread(
            target=stall,
            args=[serving_processes(web, processes)],
            kwargs={"done": done, "is_all": is_all},
        )
        for thread in [*clients, stalling]:
            thread.start()
        for client in clients:
            client.join()
        done.set()
        stalling.join()
        # Copies of clients that left are still read.
        httpx.get(f"{web.url}/info", timeout=30).raise_for_status()

    assert max(attempts) > 1
    marks = TrajectoryGroup.objects.order_by("score_mean").values_list("score_mean", flat=True)
    assert list(marks) == list(range(CLIENTS * PUSHES_PER_CLIENT))
