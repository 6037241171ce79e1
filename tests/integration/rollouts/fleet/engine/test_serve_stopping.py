"""`rolldeck inference` stops within two seconds of a signal and notifies all clients.

Measured on two cores with a load of 9: 0.3 to 0.5 s. The bound here is wide for machines with other
load; requests in progress would take minutes.
"""

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest
from safetensors.torch import save

from rollouts.fleet.engine import checkpoints
from tests.integration.rollouts.serve_processes import (
    Server,
    model,
    serving,
    started,
    write_checkpoint,
)
from tests.waiting import eventually

CONTEXT = 2048
BOUND_SECONDS = 10
STREAMS = 12


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return write_checkpoint(tmp_path / "tiny", model(0, context=CONTEXT))


def request_body(**more: Any) -> dict[str, Any]:
    return {"prompt": [1], "max_tokens": CONTEXT - 1, "ignore_eos": True, **more}


class Reader:
    """A client that reads a response, streamed or whole, in a thread."""

    def __init__(self, server: Server, **fields: Any) -> None:
        self.lines: list[str] = []
        self.status = 0
        self._url, self._fields = f"{server.url}/completions", fields
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with httpx.stream(
            "POST", self._url, json=request_body(**self._fields), timeout=120
        ) as answer:
            self.status = answer.status_code
            self.lines += filter(None, answer.iter_lines())

    def wait(self) -> None:
        self._thread.join(30)
        assert not self._thread.is_alive()

    @property
    def error(self) -> str:
        """Error at the end of the response."""
        place = -2 if self._fields.get("stream") else -1
        message: str = json.loads(self.lines[place].removeprefix("data: "))["error"]["message"]
        return message


@contextmanager
def reloading(server: Server) -> Iterator[None]:
    """Replace the weights repeatedly."""
    contents = [
        save(dict(checkpoints.named_tensors(model(seed, context=CONTEXT)))) for seed in (0, 1)
    ]
    is_over = threading.Event()

    def put() -> None:
        with suppress(httpx.HTTPError):
            for step in count(1):
                if is_over.is_set():
                    return
                httpx.put(f"{server.url}/weights/1/{step}", content=contents[step % 2], timeout=60)

    thread = threading.Thread(target=put)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join(60)


def connected(server: Server, *, method: str, path: str, body: bytes, length: int) -> socket.socket:
    """Return a connection with a request sent completely or in part."""
    host, port = server.url.removeprefix("http://").removesuffix("/v1").split(":")
    line = f"{method} /v1/{path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {length}\r\n\r\n"
    connection = socket.create_connection((host, int(port)))
    connection.sendall(line.encode() + body)
    return connection


def half_a_file(server: Server) -> socket.socket:
    return connected(server, method="PUT", path="weights/9/9", body=bytes(1000), length=50_000)


def deaf(server: Server) -> socket.socket:
    """Return a client that requests much data and does not read it."""
    body = json.dumps(request_body(stream=True, n=64, return_token_ids=True)).encode()
    return connected(server, method="POST", path="completions", body=body, length=len(body))


def stopped(server: Server, stopper: signal.Signals = signal.SIGTERM) -> float:
    """Return the time that the process takes to exit without error."""
    server.process.send_signal(stopper)
    began = time.monotonic()
    assert server.process.wait(60) == 0, server.log.read_text()
    return time.monotonic() - began


@pytest.mark.parametrize("stopper", [signal.SIGTERM, signal.SIGINT])
def test_all_clients_receive_the_end_while_weights_change_and_many_wait(
    checkpoint: Path, stopper: signal.Signals
) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        serving(
            checkpoint,
            "--accept-weights",
            *("--run", "far", "--url", f"http://127.0.0.1:{silent.getsockname()[1]}"),
        ) as server,
        reloading(server),
    ):
        streams = [Reader(server, stream=True, n=4) for _ in range(STREAMS)]
        eventually(lambda: all(stream.lines for stream in streams))
        queued = Reader(server, n=1024)
        eventually(lambda: server.health()["waiting"] > 500)
        eventually(lambda: server.health()["policy_version"] > [1, 2])

        took = stopped(server, stopper)

        for reader in [*streams, queued]:
            reader.wait()
    assert took < BOUND_SECONDS
    for stream in streams:
        assert (stream.error, stream.lines[-1]) == ("the server is stopping", "data: [DONE]")
    assert (queued.status, queued.error) == (503, "the server is stopping")
    assert "Traceback" not in server.log.read_text()


def test_idle_clients_delay_no_other_client(checkpoint: Path) -> None:
    with ExitStack() as parts:
        server = parts.enter_context(serving(checkpoint))
        for _ in range(4):
            parts.enter_context(deaf(server))
        parts.enter_context(half_a_file(server))
        eventually(lambda: server.health()["tokens"] > 5000)

        assert stopped(server) < BOUND_SECONDS


def test_the_server_stops_while_it_reads_its_checkpoint(checkpoint: Path) -> None:
    (checkpoint / "config.json").unlink()
    # Opening it blocks until there is a writer.
    os.mkfifo(checkpoint / "config.json")
    with started(checkpoint) as process:
        writing: list[int] = []

        def is_read() -> bool:
            with suppress(OSError):  # until there is a reader
                writing.append(os.open(checkpoint / "config.json", os.O_WRONLY | os.O_NONBLOCK))
            return bool(writing)

        eventually(is_read)
        process.send_signal(signal.SIGTERM)

        assert process.wait(BOUND_SECONDS) == 0
        os.close(writing[0])
