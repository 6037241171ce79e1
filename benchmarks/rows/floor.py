"""Floor: what a push and a batch cost at least on this machine, whichever server takes them."""

import contextlib
import os
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any, Final

import simdjson

from benchmarks.bench import Bench, Figures, Row
from benchmarks.bodies import USUAL, arrays, json_group
from benchmarks.http_client import HEAD_END, Line, request_bytes
from benchmarks.load import (
    GROUPS_A_PUSH,
    SEEDS,
    OtherProcess,
    Push,
    get_batches,
    other_process,
    push_json,
)
from benchmarks.rolldeck_server import RolldeckServer
from rolldeck import wire
from rolldeck.group_encoding import pack_group

REQUESTS: Final = 200
BATCHES: Final = 24
GROUPS_OF_A_BATCH: Final = 8
RECEIVE_BYTES: Final = 1 << 20
Work = Callable[[memoryview], None]


class BareServer:
    """A thread that receives requests on one connection at a time, and responds with a body.

    Args:
        work: Called with the body of each request before the response.
        content: File with the body of each response, sent without a copy into this process.
    """

    def __init__(self, work: Work, content: Path) -> None:
        self._work = work
        self._file = content.open("rb")
        self._length = content.stat().st_size
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._run, daemon=True).start()

    def close(self) -> None:
        self._listener.close()
        self._file.close()

    def _run(self) -> None:
        buffer = bytearray(1 << 26)
        with contextlib.suppress(OSError):
            while True:
                connection = self._listener.accept()[0]
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                with connection:
                    while self._serve(connection, memoryview(buffer)):
                        pass

    def _serve(self, connection: socket.socket, buffer: memoryview) -> bool:
        have, end = 0, -1
        while end < 0:
            count = connection.recv_into(buffer[have:], RECEIVE_BYTES)
            if not count:
                return False
            have += count
            end = bytes(buffer[: min(have, 4096)]).find(HEAD_END)
        head = bytes(buffer[:end]).lower()
        _, _, after = head.partition(b"\r\ncontent-length:")
        length = int(after.partition(b"\r\n")[0]) if after else 0
        begin = end + len(HEAD_END)
        while have < begin + length:
            have += connection.recv_into(buffer[have:], RECEIVE_BYTES)
        self._work(buffer[begin : begin + length])
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % self._length)
        connection.sendfile(self._file, 0)
        return True


class Parts:
    """The parts of a push and of a batch that no durable server can leave out."""

    def __init__(self, folder: Path, rolldeck: RolldeckServer) -> None:
        self._folder, self._number = folder, 0
        self._parser = simdjson.Parser()
        self._session = rolldeck.sql()
        self._session.execute("CREATE TABLE floor (id bigserial PRIMARY KEY, facts text)")

    def receive(self, _: memoryview) -> None:
        """Do nothing: the request is received."""

    def parse(self, body: memoryview) -> None:
        """Parse JSON, and read every token."""
        document: Any = self._parser.parse(body)
        for row in document["tokens"]:
            row.as_buffer(of_type="i")

    def write(self, body: memoryview) -> None:
        """Write the arrays of a group, which are a third of its JSON, and wait for the disk."""
        self._sync(body[: 12 * USUAL.sequences * USUAL.tokens])

    def write_all(self, body: memoryview) -> None:
        """Write a binary body, and wait for the disk."""
        self._sync(body)

    def commit(self, _: memoryview) -> None:
        """Insert and commit a row."""
        self._session.execute("INSERT INTO floor (facts) VALUES (repeat('x', 400))")

    def _sync(self, data: memoryview) -> None:
        self._number += 1
        path = self._folder / f"{self._number}"
        with path.open("wb", buffering=0) as file:
            file.write(data)
            os.fdatasync(file.fileno())
        path.unlink()


@contextlib.contextmanager
def serving(folder: Path, content: bytes, *works: Work) -> Iterator[str]:
    """Run a bare server, and yield its URL."""
    path = folder / "content"
    path.write_bytes(content)

    def work(body: memoryview) -> None:
        for each in works:
            each(body)

    server = BareServer(work, path)
    try:
        yield server.url
    finally:
        server.close()


def push_bodies(url: str, requests: int) -> float:
    """Push binary bodies of 16 groups; return the seconds for each group."""
    groups = [wire.encode(pack_group(arrays(USUAL, seed=seed))) for seed in range(SEEDS)]
    body = wire.encode(wire.GroupPush(groups=[groups[n % SEEDS] for n in range(GROUPS_A_PUSH)]))
    request = request_bytes("POST", "/", body)
    with Line(url) as line:
        line.ok(request)
        return timed(lambda: line.ok(request), requests) / GROUPS_A_PUSH


def timed(work: Callable[[], object], count: int) -> float:
    """Return the seconds of one call, the mean of `count`."""
    began = time.perf_counter()
    for _ in range(count):
        work()
    return (time.perf_counter() - began) / count


def run(bench: Bench) -> Figures:
    requests = 4 if bench.tiny else REQUESTS
    batch = b'{"batch":[%s]}' % b",".join(
        json_group(USUAL, seed=n % SEEDS) for n in range(GROUPS_OF_A_BATCH)
    )
    with (
        bench.rolldeck() as rolldeck,
        other_process() as load,
        tempfile.TemporaryDirectory(dir=rolldeck.var) as name,
    ):
        folder, parts = Path(name), Parts(Path(name), rolldeck)

        def a_push(*works: Work) -> float:
            return ms(bench, folder, b"{}", works, lambda url: pushed(load, url, requests))

        def a_binary(*works: Work) -> float:
            count = max(1, requests // GROUPS_A_PUSH)
            return ms(bench, folder, b"{}", works, lambda url: load.run(push_bodies, url, count))

        def a_batch(*works: Work) -> float:
            count = 2 if bench.tiny else BATCHES
            return ms(
                bench, folder, batch, works, lambda url: load.run(get_batches, url, count) / count
            )

        receive = a_push(parts.receive)
        found = {
            "receive_ms": receive,
            "parse_ms": a_push(parts.parse) - receive,
            "write_ms": a_push(parts.write) - receive,
            "commit_ms": a_push(parts.commit) - receive,
            "P1_ms": a_push(parts.parse, parts.write, parts.commit),
            "P2_ms": a_batch(parts.commit),
            "P4_ms": a_binary(parts.write_all, parts.commit),
        }
    figures = {name: round(value, 3) for name, value in found.items()}
    bench.say(f"  {figures}")
    return figures


def pushed(load: OtherProcess, url: str, requests: int) -> float:
    """Return the seconds of a push of JSON by one client."""
    return load.run(push_json, Push(url=url, size=USUAL, groups=requests)) / requests


def ms(
    bench: Bench,
    folder: Path,
    content: bytes,
    works: tuple[Work, ...],
    seconds: Callable[[str], float],
) -> float:
    """Return the milliseconds of one request to a bare server, the median of the pairs."""
    with serving(folder, content, *works) as url:
        return median(1000 * seconds(url) for _ in range(bench.pairs))


ROW = Row(
    name="floor",
    measure="a push and a batch by a bare socket server: receive, parse, write and sync, commit",
    peer="–",
    unit="ms",
    better="less",
    mark=None,
    goal=None,
    run=run,
)
