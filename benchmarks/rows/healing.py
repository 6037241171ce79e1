"""Kill −9 of each part of a server and of a fleet: the seconds until it works again.

A server works again when each of four connections has had a push accepted that began after the
kill, and `/healthz/ready` returns 200. A fleet with a trainer that leases every batch reports every
second: a figure is the time until the fleet's own report shows the recovery.
"""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import starmap
from statistics import median
from typing import Any, Final

import urllib3

from benchmarks import processes
from benchmarks.bench import Bench, Figures, Row
from benchmarks.benchmark_fleet import MANAGER, BenchmarkFleet, Shape, fleet_on
from benchmarks.bodies import Size, json_group
from benchmarks.figures import Limit, Target
from benchmarks.rolldeck_server import RolldeckServer
from benchmarks.rows.p7_fleet import WITH_RAY

KILLS_OF_A_FLEET: Final = 4
"""More within a minute would count as a part that cannot work."""
CONNECTIONS: Final = 4
CALM_SECONDS: Final = 3.0
"""Time between two kills of a server's part, in which a spare process is ready again."""
GIVE_UP_SECONDS: Final = 180.0
POLL_SECONDS: Final = 0.1
SHAPE: Final = Shape(workers=2, envs=8, envs_in_worker=False)

Worker = dict[str, Any]
Workers = list[Worker]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of a fleet that is killed."""

    name: str
    victim: Callable[[RolldeckServer, Workers], int]
    """Returns the id of the process to kill."""
    steps_again: Callable[[Workers, Workers], bool]
    """Compares the workers before the kill with the present ones."""


SERVER_PARTS: Final[dict[str, Callable[[RolldeckServer], list[int]]]] = {
    "web_process": lambda rolldeck: rolldeck.web_pids()[:1],
    "all_web_processes": lambda rolldeck: rolldeck.web_pids(),
    "postgresql": lambda rolldeck: _called(rolldeck, "postgres -D"),
    "valkey": lambda rolldeck: _called(rolldeck, "valkey-server"),
}
"""Processes to kill at once, by part."""


def _called(rolldeck: RolldeckServer, mark: str) -> list[int]:
    lines = processes.descendants(rolldeck.pid)
    return sorted(pid for pid, line in lines.items() if mark in line)[:1]


class Pushers:
    """Threads that push small groups, each on a connection of its own.

    Attributes:
        begun_at: Time at which the last accepted push of each thread began.
    """

    def __init__(self, rolldeck: RolldeckServer) -> None:
        env_id = rolldeck.begin(batch_size=8, group_size=2)
        self._body = json_group(Size(sequences=2, tokens=64), seed=1, env_id=env_id)
        self._url = rolldeck.url
        self._is_over = threading.Event()
        self.begun_at = [0.0] * CONNECTIONS

    @contextlib.contextmanager
    def pushing(self) -> Iterator[None]:
        """Push until the end of the context."""
        threads = [
            threading.Thread(target=self._push, args=(index,)) for index in range(CONNECTIONS)
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            for thread in threads:
                thread.join()

    def is_accepted(self, since: float) -> bool:
        """Return whether each connection has had a push accepted that began after `since`."""
        return min(self.begun_at) >= since

    def is_ready(self) -> bool:
        """Return whether the server is ready."""
        with contextlib.suppress(urllib3.exceptions.HTTPError):
            answer = urllib3.request(
                "GET", f"{self._url}/healthz/ready", timeout=5.0, retries=False
            )
            return bool(answer.status == 200)
        return False

    def _push(self, index: int) -> None:
        http = urllib3.PoolManager(retries=False, timeout=5.0, maxsize=1)
        headers = {"Content-Type": "application/json"}
        number = 0
        while not self._is_over.wait(0.02):
            began = time.monotonic()
            headers["Idempotency-Key"] = f"healing-{index}-{number}"
            with contextlib.suppress(urllib3.exceptions.HTTPError):
                answer = http.request(
                    "POST", f"{self._url}/scored_data", headers=headers, body=self._body
                )
                if answer.status == 200:
                    self.begun_at[index] = began
                    number += 1


def _env_process_steps(before: Workers, now: Workers) -> bool:
    """Return whether a new process has ended an episode in the killed process's slot."""
    old, new = before[0]["slots"][0], now[0]["slots"][0]
    return bool(new["pid"]) and new["pid"] != old["pid"] and new["episodes"] > old["episodes"]


def _worker_steps(before: Workers, now: Workers) -> bool:
    return _is_another(before[0], now[0])


def _fleet_steps(before: Workers, now: Workers) -> bool:
    return all(map(_is_another, before, now))


def _is_another(before: Worker, now: Worker) -> bool:
    return bool(now["incarnation"] != before["incarnation"] and now["env_steps"] > 0)


def _process_called(mark: str) -> Callable[[RolldeckServer, Workers], int]:
    def find(rolldeck: RolldeckServer, _: Workers) -> int:
        lines = processes.descendants(rolldeck.pid)
        [pid_found] = [pid for pid, line in lines.items() if mark in line]
        return pid_found

    return find


PARTS: Final = (
    Part(
        name="env_process",
        victim=lambda _, workers: int(workers[0]["slots"][0]["pid"]),
        steps_again=_env_process_steps,
    ),
    Part(
        name="worker",
        victim=lambda _, workers: int(workers[0]["pid"]),
        steps_again=_worker_steps,
    ),
    Part(
        name="manager",
        victim=_process_called(MANAGER),
        steps_again=_fleet_steps,
    ),
    # The only node of the cluster: the cluster restarts, and the fleet is launched on it.
    Part(name="raylet", victim=_process_called("raylet/raylet "), steps_again=_fleet_steps),
)


def run(bench: Bench) -> Figures:
    """Kill each part in turn."""
    kills = 1 if bench.tiny else bench.pairs
    taken: dict[str, list[float]] = {}

    def add(part: str, seconds: list[float]) -> None:
        bench.say(f"  {part}: {', '.join(f'{each:.1f}' for each in seconds)} s")
        taken[part] = seconds

    with bench.rolldeck(settings=WITH_RAY) as rolldeck:
        pushers = Pushers(rolldeck)
        _await_spare(rolldeck)
        with pushers.pushing():
            for name, victims in SERVER_PARTS.items():
                add(name, [_server_killed(rolldeck, pushers, victims) for _ in range(kills)])
        for part in PARTS:
            seconds: list[float] = []
            while left := kills - len(seconds):
                with fleet_on(rolldeck, SHAPE) as fleet:
                    count = min(left, KILLS_OF_A_FLEET)
                    seconds += [_killed(rolldeck, fleet, part) for _ in range(count)]
            add(part.name, seconds)
    medians = {f"{part}_s": round(median(seconds), 1) for part, seconds in taken.items()}
    worst = {f"{part}_s": round(max(seconds), 1) for part, seconds in taken.items()}
    return {"kills": kills, **worst, "median": medians}


def _server_killed(
    rolldeck: RolldeckServer, pushers: Pushers, victims: Callable[[RolldeckServer], list[int]]
) -> float:
    """Kill a part of a server; return the seconds until it accepts on every connection."""
    _await_server(pushers, time.monotonic())
    time.sleep(CALM_SECONDS)
    pids = victims(rolldeck)
    began = time.monotonic()
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    _await_server(pushers, began)
    return time.monotonic() - began


def _await_spare(rolldeck: RolldeckServer) -> None:
    """Wait for the spare web process, which a deployment starts after its first minute."""
    deadline = time.monotonic() + GIVE_UP_SECONDS
    while not any(starmap(processes.is_waiting_spare, processes.descendants(rolldeck.pid).items())):
        if time.monotonic() > deadline:
            raise processes.NotStarted(f"no spare waits after {GIVE_UP_SECONDS:.0f} s")
        time.sleep(POLL_SECONDS)


def _await_server(pushers: Pushers, since: float) -> None:
    deadline = since + GIVE_UP_SECONDS
    while not (pushers.is_accepted(since) and pushers.is_ready()):
        if time.monotonic() > deadline:
            raise processes.NotStarted(
                f"the server did not accept again within {GIVE_UP_SECONDS:.0f} s"
            )
        time.sleep(0.01)


def _killed(rolldeck: RolldeckServer, fleet: BenchmarkFleet, part: Part) -> float:
    """Kill a part of a working fleet; return the seconds until it steps again."""
    before = _await(fleet, lambda workers: all(map(_steps, workers)))
    os.kill(part.victim(rolldeck, before), signal.SIGKILL)
    began = time.monotonic()
    _await(fleet, lambda workers: part.steps_again(before, workers))
    return time.monotonic() - began


def _await(fleet: BenchmarkFleet, condition: Callable[[Workers], bool]) -> Workers:
    deadline = time.monotonic() + GIVE_UP_SECONDS
    while True:
        workers = fleet.workers()
        if len(workers) == SHAPE.workers and condition(workers):
            return workers
        if time.monotonic() > deadline:
            raise processes.NotStarted(f"the fleet did not heal within {GIVE_UP_SECONDS:.0f} s")
        time.sleep(POLL_SECONDS)


def _steps(worker: Worker) -> bool:
    is_whole = worker["state"] == "running" and worker["env_steps"] > 0
    return bool(is_whole and all(slot["pid"] and slot["episodes"] for slot in worker["slots"]))


ROW: Final = Row(
    name="healing",
    measure="kill −9 of a part of a server or fleet, until it works again; the worst",
    peer="–",
    unit="s",
    better="less",
    mark=Target(
        words="web process, Valkey ≤ 2 s; all web processes, PostgreSQL, worker, manager ≤ 5 s; "
        "node ≤ 20 s",
        limits=tuple(
            Limit(figure=f"{part}_s", at_most=seconds)
            for part, seconds in (
                ("web_process", 2.0),
                ("all_web_processes", 5.0),
                ("postgresql", 5.0),
                ("valkey", 2.0),
                ("env_process", 5.0),
                ("worker", 5.0),
                ("manager", 5.0),
                ("raylet", 20.0),
            )
        ),
    ),
    goal=None,
    run=run,
)
