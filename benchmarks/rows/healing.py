"""Kill −9 of each part of a fleet: the seconds until environments are stepped again.

It uses a separate server with Ray, a trainer that leases every batch, and a fleet that reports
every second: a figure is the time until the fleet's own report shows the recovery.
"""

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

from benchmarks import processes
from benchmarks.bench import Bench, Figures, Row
from benchmarks.benchmark_fleet import BenchmarkFleet, Shape, fleet_on
from benchmarks.figures import Limit, Target
from benchmarks.rolldeck_server import RolldeckServer
from benchmarks.rows.p7_fleet import WITH_RAY

MOST_KILLS: Final = 3
"""Kills of one part; more would open the circuit breaker of env processes."""
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
        victim=_process_called("ray::ManagerActor"),
        steps_again=_fleet_steps,
    ),
    # The only node of the cluster: the cluster restarts, and the fleet is launched on it.
    Part(name="raylet", victim=_process_called("raylet/raylet "), steps_again=_fleet_steps),
)


def run(bench: Bench) -> Figures:
    """Kill each part a few times in turn."""
    kills = 1 if bench.tiny else min(bench.pairs, MOST_KILLS)
    figures: Figures = {"kills": kills}
    medians: Figures = {}
    with bench.rolldeck(settings=WITH_RAY) as rolldeck, fleet_on(rolldeck, SHAPE) as fleet:
        for part in PARTS:
            taken = [_killed(rolldeck, fleet, part) for _ in range(kills)]
            bench.say(f"  {part.name}: {', '.join(f'{seconds:.1f}' for seconds in taken)} s")
            figures[f"{part.name}_s"] = round(max(taken), 1)
            medians[f"{part.name}_s"] = round(median(taken), 1)
    return figures | {"median": medians}


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
    measure="kill −9 of a part of a fleet, until it steps again",
    peer="–",
    unit="s",
    better="less",
    mark=Target(
        words="env process ≤ 5 s; worker, raylet ≤ 30 s",
        limits=(
            Limit(figure="env_process_s", at_most=5.0),
            Limit(figure="worker_s", at_most=30.0),
            Limit(figure="raylet_s", at_most=30.0),
        ),
    ),
    goal=None,
    run=run,
)
