"""Measure a server's cost of a simulated fleet: `python -m benchmarks.simulated_fleet`.

A real manager in a separate process reports every worker and slot each second, like a fleet on a
cluster; the workers are only simulated. The output has the response time of the fleet page's data,
the age of the data, and the processor time of every part.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from benchmarks import processes
from benchmarks.figures import percentile
from benchmarks.rolldeck_server import NO_RAY, TOKEN, RolldeckServer, running_rolldeck
from rolldeck.trainer import Trainer

RUN: Final = "simulated"
START_SECONDS: Final = 120.0
REST_SECONDS: Final = 0.5
LIMIT_SECONDS: Final = 600.0


def main() -> None:
    """Measure the fleet and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=2000)
    parser.add_argument("--slots", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--idle", action="store_true", help="pause the run before measuring")
    arguments = parser.parse_args()
    with running_rolldeck(settings={"ROLLDECK_SIMULATION": "1"}) as rolldeck:
        figures = measured(
            rolldeck,
            workers=arguments.workers,
            slots=arguments.slots,
            seconds=arguments.seconds,
            is_idle=arguments.idle,
        )
    print(json.dumps(figures, indent=2))


def measured(
    rolldeck: RolldeckServer, *, workers: int, slots: int, seconds: float, is_idle: bool = False
) -> dict[str, Any]:
    """Return the figures of a running or paused fleet over the given time."""
    expected = "paused" if is_idle else "running"
    with _simulation(rolldeck, workers=workers, slots=slots) as manager:
        _wait_for(rolldeck, workers)
        if is_idle:
            _pause(rolldeck, workers)
        used = _cpu_seconds(rolldeck, manager)
        answers, ages, states = [], [], []
        began = time.monotonic()
        while time.monotonic() < began + seconds:
            asked_at = time.monotonic()
            fleet = _fleet(rolldeck)
            answers.append(1000 * (time.monotonic() - asked_at))
            ages.append(fleet["age_seconds"])
            states.append(Counter(worker["state"] for worker in fleet["workers"]))
            time.sleep(REST_SECONDS)
        took = time.monotonic() - began
        used_then = _cpu_seconds(rolldeck, manager)
    return {
        "workers": workers,
        "slots": slots * workers,
        f"{expected}_least": min(counted[expected] for counted in states),
        "silent_most": max(counted["unknown"] for counted in states),
        "fleet_answer_p50_ms": round(percentile(answers, 50), 1),
        "fleet_answer_p95_ms": round(percentile(answers, 95), 1),
        "report_age_p50_s": percentile(ages, 50),
        "report_age_p95_s": percentile(ages, 95),
        "cores": {part: round((used_then[part] - used[part]) / took, 3) for part in used},
    }


@contextmanager
def _simulation(
    rolldeck: RolldeckServer, *, workers: int, slots: int
) -> Iterator["subprocess.Popen[bytes]"]:
    services = json.loads((rolldeck.var / "run" / "services.json").read_text(encoding="utf-8"))
    command = [
        *(sys.executable, "manage.py", "simulate", "--run", RUN, "--url", rolldeck.url),
        *("--workers", str(workers), "--slots", str(slots), "--seconds", str(LIMIT_SECONDS)),
    ]
    own = {
        "ROLLDECK_SIMULATION": "1",
        "ROLLDECK_VAR": str(rolldeck.var),
        "RAY_ADDRESS": NO_RAY,
        "DJANGO_SETTINGS_MODULE": "config.settings.base",
        "ROLLDECK_BOOTSTRAP_TOKEN": TOKEN,
    }
    environment = os.environ | {name: str(value) for name, value in services.items()} | own
    with subprocess.Popen(command, cwd=processes.ROOT, env=environment) as process:
        try:
            yield process
        finally:
            process.terminate()


def _wait_for(rolldeck: RolldeckServer, workers: int) -> None:
    """Return once the fleet has registered and all its workers run."""
    deadline = time.monotonic() + START_SECONDS
    has_weights = False
    while time.monotonic() < deadline:
        time.sleep(REST_SECONDS)
        if not has_weights and RUN in [run["name"] for run in _runs(rolldeck)]:
            _publish(rolldeck.url)
            has_weights = True
        if has_weights:
            states = [worker["state"] for worker in _fleet(rolldeck)["workers"]]
            if states.count("running") == workers:
                return
    raise processes.NotStarted("the simulated fleet does not run")


def _pause(rolldeck: RolldeckServer, workers: int) -> None:
    """Return once every worker is paused."""
    rolldeck.call("POST", f"/api/v1/runs/{RUN}/pause", {}, is_admin=True)
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if [worker["state"] for worker in _fleet(rolldeck)["workers"]].count("paused") == workers:
            return
        time.sleep(REST_SECONDS)
    raise processes.NotStarted("the simulated fleet does not pause")


def _publish(url: str) -> None:
    with Trainer(url, RUN, TOKEN) as trainer:
        trainer.register()
        trainer.publish_weights({"nothing": np.zeros(1, dtype=np.float32)}, step=0)


def _runs(rolldeck: RolldeckServer) -> list[dict[str, Any]]:
    runs: list[dict[str, Any]] = rolldeck.call("GET", "/api/v1/runs", is_admin=True)["results"]
    return runs


def _fleet(rolldeck: RolldeckServer) -> dict[str, Any]:
    fleet: dict[str, Any] = rolldeck.call("GET", f"/api/v1/runs/{RUN}/fleet", is_admin=True)
    return fleet


def _cpu_seconds(rolldeck: RolldeckServer, manager: "subprocess.Popen[bytes]") -> dict[str, float]:
    return rolldeck.cpu_seconds() | {"manager": processes.cpu_seconds([manager.pid])}


if __name__ == "__main__":
    main()
