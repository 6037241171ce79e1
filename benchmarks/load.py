"""Load generators: environments and trainers in separate processes."""

import contextlib
import itertools
import os
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any, Final, Generic, ParamSpec, TypeVar

from numpy.typing import NDArray

from benchmarks import processes
from benchmarks.bodies import Numbered, Size, arrays, json_group
from benchmarks.http_client import Line, request_bytes
from benchmarks.rolldeck_server import RUN, TOKEN
from rolldeck.http import Call, Connection
from rolldeck.sender import GroupSender

P = ParamSpec("P")
T = TypeVar("T")
SEEDS: Final = 4
GROUPS_A_PUSH: Final = 16
PUSH_BYTES: Final = 30_000_000
LONGEST_SECONDS: Final = 600.0


class OtherProcess:
    """A persistent process that loads a server, so that nothing is imported while timing."""

    def __init__(self, pool: ProcessPoolExecutor) -> None:
        self._pool = pool
        self._pid = pool.submit(os.getpid).result()

    def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `work` in the process and return its result."""
        return self.start(work, *args, **kwargs)()

    def start(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> "RunningWork[T]":
        """Start `work` in the process."""
        return RunningWork(self._pool.submit(_run_guarded, work, args, kwargs))

    def cpu_seconds(self) -> float:
        """Return the processor time used so far."""
        return processes.cpu_seconds([self._pid])


class WorkFailed(Exception):
    """Work in another process failed; the message is its traceback."""


def _run_guarded(work: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]) -> T:
    """Do the work; convert exceptions to text, because some cannot be pickled."""
    try:
        return work(*args, **kwargs)
    except Exception:  # noqa: BLE001 raised again in the parent
        raise WorkFailed(traceback.format_exc()) from None


class RunningWork(Generic[T]):
    """Work in another process; call it to wait for the result."""

    def __init__(self, future: "Future[T]") -> None:
        self._future = future

    def __call__(self) -> T:
        return self._future.result(LONGEST_SECONDS)

    def done(self) -> bool:
        """Return whether the work has ended."""
        return self._future.done()


@contextlib.contextmanager
def other_process() -> Iterator[OtherProcess]:
    """Start a process that ends with the block."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        yield OtherProcess(pool)


@dataclass(frozen=True, slots=True, kw_only=True)
class Push:
    """A number of groups to push.

    Attributes:
        url: URL of the server.
        size: Size of each group.
        groups: Number of groups over all clients.
        clients: Number of concurrent connections.
        env_id: Environment of the groups.
    """

    url: str
    size: Size
    groups: int
    clients: int = 1
    env_id: int | None = None


_numbers = itertools.count()


def push_json(push: Push) -> float:
    """Push groups to `/scored_data`; return the seconds from the first byte to the last ack.

    The bodies are prepared before the clock starts, and all sent bodies differ.
    """
    requests = [
        request_bytes("POST", "/scored_data", json_group(push.size, seed=seed, env_id=push.env_id))
        for seed in range(min(SEEDS, push.groups))
    ]
    left = iter(range(push.groups))
    lock = threading.Lock()

    def client(index: int) -> None:
        bodies = [Numbered(request) for request in requests]
        with Line(push.url) as line:
            gate.wait()
            while True:
                with lock:
                    turn = next(left, None)
                    number = next(_numbers)
                if turn is None:
                    return
                line.ok(bodies[(turn + index) % len(bodies)].with_number(number))

    gate = threading.Barrier(push.clients + 1)
    return timed_threads(client, push.clients, gate)


def push_binary(push: Push) -> float:
    """Push groups with our client, 16 per request; return the seconds from arrays to the last ack.

    The time includes packing the arrays; the peer's JSON is encoded before its clock starts.
    """
    made = [arrays(push.size, seed=seed) for seed in range(SEEDS)]
    # Twelve bytes per token; a body is limited to 32 MB.
    at_once = min(GROUPS_A_PUSH, PUSH_BYTES // (12 * push.size.sequences * push.size.tokens))
    left = iter(range(0, push.groups, at_once))
    lock = threading.Lock()

    def client(_: int) -> None:
        with Connection(push.url, TOKEN) as connection:
            connection.send(Call(method="GET", path="/healthz/live"))
            sender = GroupSender(push.url, RUN, connection=connection)
            gate.wait()
            while True:
                with lock:
                    start = next(left, None)
                    if start is None:
                        return
                    count = min(at_once, push.groups - start)
                    numbers = [next(_numbers) for _ in range(count)]
                sender.push_groups([numbered(made[n % len(made)], n, push.env_id) for n in numbers])

    gate = threading.Barrier(push.clients + 1)
    return timed_threads(client, push.clients, gate)


def numbered(group: dict[str, NDArray[Any]], number: int, env_id: int | None) -> dict[str, Any]:
    """Return a group with a number as its first token."""
    tokens = group["tokens"].copy()
    tokens[0, 0] = number
    return {**group, "tokens": tokens, "env_id": env_id}


def timed_threads(client: Callable[[int], None], count: int, gate: threading.Barrier) -> float:
    """Run clients that start together at `gate`; return the seconds until the last has ended."""
    failed: list[BaseException] = []

    def guarded(index: int) -> None:
        try:
            client(index)
        except BaseException as error:  # noqa: BLE001 it is raised again below
            failed.append(error)
            gate.abort()

    threads = [threading.Thread(target=guarded, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    with contextlib.suppress(threading.BrokenBarrierError):
        gate.wait()
    began = time.perf_counter()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - began
    real = [error for error in failed if not isinstance(error, threading.BrokenBarrierError)]
    if failed:
        raise (real or failed)[0]
    return seconds


def get_batches(url: str, batches: int) -> float:
    """Return the seconds for `batches` calls of `GET /batch`, with bodies read to the end.

    Raises:
        ValueError: If a response holds no batch.
    """
    request = request_bytes("GET", "/batch")
    with Line(url, reuses_buffer=True) as line:
        line.ok(request_bytes("GET", "/status"))  # the line is open before the clock starts
        began = time.perf_counter()
        for _ in range(batches):
            answer = line.ok(request)
            if not answer.text(20).startswith(('{"batch":[{', '{"batch": [{')):
                raise ValueError(f"no batch: {answer.text(100)}")
        return time.perf_counter() - began


def read_again(url: str, seconds: float) -> int:
    """Read one leased, unacknowledged batch of ours repeatedly; return the number of reads."""
    headers = {"Authorization": f"Bearer {TOKEN}", "Accept": "application/json"}
    register = request_bytes(
        "POST", "/api/v1/runs/default/trainers", b'{"name":"load","resume":true}', headers=headers
    )
    ask = request_bytes(
        "POST", "/api/v1/runs/default/batches/next", b'{"wait_seconds":1}', headers=headers
    )
    count, until = 0, time.monotonic() + seconds
    with Line(url) as line:
        line.ok(register)
        while time.monotonic() < until:
            line.ok(ask)
            count += 1
    return count


def latencies(url: str, request: bytes, *, count: int, every_seconds: float = 0.0) -> list[float]:
    """Return the seconds of each of `count` equal requests, sent one after the other."""
    taken = []
    with Line(url) as line:
        line.ok(request)
        for _ in range(count):
            began = time.perf_counter()
            line.ok(request)
            taken.append(time.perf_counter() - began)
            time.sleep(max(0.0, every_seconds - taken[-1]))
    return taken
