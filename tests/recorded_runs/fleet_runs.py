"""Recorded runs with a fleet: CartPole in several states, and lessons in text."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from tests import processes
from tests.recorded_runs.names import DRAFT, FAILED, LANGUAGE, LIVE, PAUSED, SWEEP
from tests.recorded_runs.people import Person
from tests.server import ADMIN_TOKEN, ROOT, Server, environment, wait_until

SLOW: Final = 1800.0
# A train step has 512 env steps.
CARTPOLE: Final[dict[str, Any]] = {
    "fleet": {
        "num_workers": 1,
        "envs_per_worker": 4,
        "inference_batch_size": 4,
        "fragment_length": 64,
    },
    "buffer": {"batch_size": 8, "max_staleness": 2, "off_policy_tolerance": 3.0},
    "evaluation": {"every_train_steps": 20, "episodes": 10},
    "num_steps": 500,
}
SWEEP_STEPS: Final = 80
LIVE_WORKERS: Final = 3
LIVE_VERSIONS: Final = 240
CALLS_UNTIL_HANG: Final = 800


def launch(person: Person, name: str, *, tags: tuple[str, ...] = ("ppo",), **config: Any) -> None:
    """Launch a run with a CartPole fleet."""
    body = {
        "name": name,
        "preset": "cartpole",
        "config": CARTPOLE | config,
        "tags": list(tags),
        "start": True,
    }
    person.post("/api/v1/runs", body)


@contextmanager
def trained(server: Server, run: str, *, example: str = "ppo_cartpole") -> Iterator[Any]:
    """Run an example trainer until the end of the block."""
    with (server.var / f"{run}.log").open("wb") as log:
        process = processes.start(
            [
                *(sys.executable, f"examples/{example}.py", "--url", server.url, "--run", run),
                *("--token", ADMIN_TOKEN),
            ],
            cwd=ROOT,
            env=environment(server.var, server.port),
            stdout=log,
            stderr=log,
        )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(60)


def wait_for(server: Server, run: str, *, version: int) -> None:
    """Wait until a version of a run is published."""
    wait_until(
        lambda: server.get(f"/api/v1/runs/{run}")["policy_step"] >= version,
        seconds=SLOW,
        what=f"version {version} of {run}",
    )


def wait_for_status(server: Server, run: str, status: str) -> None:
    """Wait until a run has a status."""
    wait_until(
        lambda: server.get(f"/api/v1/runs/{run}")["status"] == status,
        seconds=SLOW,
        what=f"{run} is {status}",
    )


def record_sweep(server: Server, person: Person, number: int) -> None:
    """Train a run of the sweep until its last step."""
    run = SWEEP[number]
    fleet = CARTPOLE["fleet"] | {"num_workers": number + 1}
    steps = {"num_steps": SWEEP_STEPS}
    launch(person, run, tags=("ppo", "sweep"), fleet=fleet, seed=number + 1, **steps)
    with trained(server, run):
        wait_for_status(server, run, "completed")


def record_failure(server: Server, person: Person) -> None:
    """Train a run whose policy hangs until the platform gives it up."""
    policy = {
        "kind": "module:recorded_parts:HangingPolicy",
        "kwargs": {"after": CALLS_UNTIL_HANG},
        "hung_after_seconds": 3,
    }
    launch(person, FAILED, policy=policy, evaluation={"every_train_steps": 0})
    with trained(server, FAILED):
        wait_for_status(server, FAILED, "failed")


@contextmanager
def paused(server: Server, person: Person) -> Iterator[None]:
    """Train a run for a while, pause it, and keep its trainer."""
    launch(person, PAUSED, seed=3)
    with trained(server, PAUSED):
        wait_for(server, PAUSED, version=40)
        reason = "gpu-a1 gets a new driver; resume after 18:00"
        person.post(f"/api/v1/runs/{PAUSED}/pause", {"reason": reason})
        wait_for_status(server, PAUSED, "paused")
        yield


def create_draft(person: Person) -> None:
    """Create a run that is never started."""
    body = {"name": DRAFT, "preset": "cartpole", "config": {"seed": 9}, "tags": ["ppo"]}
    person.post("/api/v1/runs", body)


@contextmanager
def lessons(server: Server, person: Person) -> Iterator[None]:
    """Train a language run on four lessons until the end of the block."""
    body = {
        "name": LANGUAGE,
        "preset": "curriculum",
        "config": {"num_steps": 1000},
        "tags": ["grpo", "lessons"],
        "start": True,
    }
    person.post("/api/v1/runs", body)
    with trained(server, LANGUAGE, example="grpo"):
        yield


@contextmanager
def live(server: Server, person: Person) -> Iterator[None]:
    """Train a run whose last worker is lost and comes back, until the end of the block."""
    launch(person, LIVE, seed=7, fleet=CARTPOLE["fleet"] | {"num_workers": LIVE_WORKERS})
    with trained(server, LIVE):
        wait_for(server, LIVE, version=LIVE_VERSIONS // 3)
        workers = server.get(f"/api/v1/runs/{LIVE}/fleet")["workers"]
        [pid] = [one["pid"] for one in workers if one["index"] == LIVE_WORKERS - 1]
        os.kill(pid, signal.SIGKILL)
        reason = "worker 2 was one version behind"
        person.post(f"/api/v1/runs/{LIVE}/weights/sync", {"reason": reason})
        wait_for(server, LIVE, version=LIVE_VERSIONS)
        observe(server, person)
        yield


def observe(server: Server, person: Person) -> None:
    """Read logs, and record episodes of two slots."""
    root = f"/api/v1/runs/{LIVE}"
    for slot in (0, 3):
        person.post(f"{root}/recordings", {"worker": 0, "slot": slot})
    for worker in range(LIVE_WORKERS):
        server.get(f"{root}/fleet/logs?worker={worker}&wait=10")
    with suppress(AssertionError):  # a long episode is recorded later
        wait_until(
            lambda: all(
                one["state"] == "ready" for one in server.get(f"{root}/recordings")["results"]
            ),
            seconds=60,
            what="both recordings",
        )
    time.sleep(5)
