"""Measure a server's cost of a large fleet: `python -m benchmarks.fleet_reports`.

A process reports every worker and slot each second, as the manager of a fleet does; there are no
workers. The output has the response time of the fleet page's data, the age of the data, and the
processor time of every part. A shell on the server registers the process as the run's manager;
everything else uses the API.
"""

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, Literal, Protocol

import httpx
import msgspec

from benchmarks import processes
from benchmarks.figures import percentile
from benchmarks.rolldeck_server import NO_RAY, RolldeckServer, running_rolldeck
from rolldeck.wire import FleetControl, FleetReport, SlotReport, WeightsTransfers, WorkerReport

RUN: Final = "reported"
START_SECONDS: Final = 120.0
REST_SECONDS: Final = 0.5
REPORT_SECONDS: Final = 1.0
BECOME_MANAGER: Final = """
import json
from django.db import transaction
from django.utils import timezone
from rollouts.control.services.reconciliation import begin_launch, record_manager_placed
from runs.lifecycle.services.lifecycle import create_and_start
now = timezone.now()
with transaction.atomic():
    run = create_and_start(start=True, actor="a script", now=now, name={name!r}, config={config!r})
    order = begin_launch(run_id=run.pk, reason="a script", platform_url={url!r}, now=now)
    record_manager_placed(run_id=run.pk, incarnation=order.incarnation, now=now)
print(json.dumps([order.incarnation, order.token]))
"""
"""Code for `manage.py shell`: create a run whose manager is the caller, and print its credentials.

The reconciler sees the run only with its manager.
"""


class Event(Protocol):
    """An event of threads or of processes."""

    def is_set(self) -> bool:
        """Return whether the event is set."""
        ...

    def wait(self, timeout: float) -> bool:
        """Wait until the event is set; return whether it is."""
        ...


def main() -> None:
    """Measure the fleet and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=2000)
    parser.add_argument("--slots", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--idle", action="store_true", help="pause the run before measuring")
    arguments = parser.parse_args()
    with running_rolldeck() as rolldeck:
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
    with _reports(rolldeck, workers=workers, slots=slots):
        _wait_for(rolldeck, workers, state="running")
        if is_idle:
            rolldeck.call("POST", f"/api/v1/runs/{RUN}/pause", {}, is_admin=True)
            _wait_for(rolldeck, workers, state="paused")
        used = rolldeck.cpu_seconds()
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
        used_then = rolldeck.cpu_seconds()
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
def _reports(rolldeck: RolldeckServer, *, workers: int, slots: int) -> Iterator[None]:
    """Create a run and send its manager's reports from another process."""
    fleet = {"num_workers": workers, "envs_per_worker": slots, "envs_per_process": slots}
    fleet["inference_batch_size"] = slots
    config = {"environment": {"spec": "gymnasium:CartPole-v1"}, "fleet": fleet}
    services = json.loads((rolldeck.var / "run" / "services.json").read_text(encoding="utf-8"))
    own = {
        "ROLLDECK_VAR": str(rolldeck.var),
        "RAY_ADDRESS": NO_RAY,
        "DJANGO_SETTINGS_MODULE": "config.settings.base",
    }
    code = BECOME_MANAGER.format(name=RUN, config=config, url=rolldeck.url)
    printed = subprocess.run(
        [sys.executable, "manage.py", "shell", "-c", code],
        cwd=processes.ROOT,
        env=os.environ | {name: str(value) for name, value in services.items()} | own,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    incarnation, token = json.loads(printed.splitlines()[-1])
    context = multiprocessing.get_context("spawn")
    is_over = context.Event()
    process = context.Process(
        target=report_until,
        args=(is_over, rolldeck.url, RUN, incarnation, token),
        kwargs={"workers": workers, "slots": slots},
        daemon=True,
    )
    process.start()
    try:
        yield
    finally:
        is_over.set()
        process.join()


def report_until(
    is_over: Event, url: str, run: str, incarnation: str, token: str, *, workers: int, slots: int
) -> None:
    """Report a fleet once a second, in the state that the platform requests, until `is_over`."""
    headers = {"Authorization": f"Bearer {token}"}
    began = time.monotonic()
    desired, sequence = "running", 0
    with httpx.Client(base_url=f"{url}/api/v1/runs/{run}/fleet", headers=headers) as http:
        while not is_over.is_set():
            sent_at = time.monotonic()
            state: Literal["paused", "running"] = "paused" if desired == "paused" else "running"
            env_steps = int(1 + 20 * slots * (sent_at - began))
            report = FleetReport(
                incarnation=incarnation,
                sequence=sequence,
                state=state,
                workers=[_worker(index, state, env_steps, slots) for index in range(workers)],
            )
            answer = http.post("/report", content=msgspec.json.encode(report), timeout=60)
            answer.raise_for_status()
            desired = msgspec.json.decode(answer.content, type=FleetControl).desired
            sequence += 1
            is_over.wait(max(0.0, sent_at + REPORT_SECONDS - time.monotonic()))


def _worker(
    index: int, state: Literal["paused", "running"], env_steps: int, slots: int
) -> WorkerReport:
    doing: Literal["stepping", "waiting"] = "stepping" if state == "running" else "waiting"
    return WorkerReport(
        index=index,
        incarnation=f"{index}@0",
        state=state,
        node="reported",
        env_steps=env_steps,
        env_steps_per_second=20.0 * slots,
        transfers=WeightsTransfers(order=0),
        slots=[SlotReport(slot=slot, state=doing, episodes=3) for slot in range(slots)],
    )


def _wait_for(rolldeck: RolldeckServer, workers: int, *, state: str) -> None:
    """Return once every worker is in a state."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if [worker["state"] for worker in _fleet(rolldeck)["workers"]].count(state) == workers:
            return
        time.sleep(REST_SECONDS)
    raise processes.NotStarted(f"not every worker is reported as {state}")


def _fleet(rolldeck: RolldeckServer) -> dict[str, Any]:
    fleet: dict[str, Any] = rolldeck.call("GET", f"/api/v1/runs/{RUN}/fleet", is_admin=True)
    return fleet


if __name__ == "__main__":
    main()
