"""Web processes: pushes of 16 clients by the number of web processes, measured and simulated."""

import os
from statistics import median
from typing import Final

from benchmarks.bench import Bench, Figures, Row
from benchmarks.bodies import USUAL
from benchmarks.load import Push, other_process, push_json
from benchmarks.push_simulation import Costs, groups_a_second
from benchmarks.rolldeck_server import running_rolldeck

CLIENTS: Final = 16
GROUPS: Final = 400
PROCESSES: Final = (1, 2, 4)
CORES_A_PROCESS: Final = 2
"""Cores at which a web process does not share one with PostgreSQL, the disk and the clients."""


def run(bench: Bench) -> Figures:
    cores = os.cpu_count() or 1
    found: Figures = {"cores": cores}
    costs: Costs | None = None
    for processes in PROCESSES:
        if processes <= cores:
            measured = _measured(bench, processes)
            costs = costs or measured
            found[f"measured {processes}"] = {
                "groups_per_second": round(measured.groups_s, 1),
                "web_ms": round(measured.web_ms, 3),
                "postgres_ms": round(measured.postgres_ms, 3),
                "client_ms": round(measured.client_ms, 3),
            }
    assert costs is not None  # noqa: S101 every machine has a core
    for processes in PROCESSES:
        found[f"simulated {processes}"] = {
            f"{machine}_cores": round(
                groups_a_second(costs, clients=CLIENTS, processes=processes, cores=machine), 1
            )
            for machine in sorted({cores, CORES_A_PROCESS * max(PROCESSES)})
        }
    bench.say(f"  {found}")
    return found


def _measured(bench: Bench, processes: int) -> Costs:
    """Return the groups per second with this number of web processes, and what a group costs."""
    groups = 32 if bench.tiny else GROUPS
    with (
        running_rolldeck(web_workers=processes, prepare=bench.prepare) as server,
        other_process() as load,
    ):
        env_id = server.begin(batch_size=64, group_size=USUAL.sequences)
        push = Push(url=server.url, size=USUAL, groups=groups, clients=CLIENTS, env_id=env_id)
        load.run(push_json, push)
        before, client = server.cpu_seconds(), load.cpu_seconds()
        seconds = [load.run(push_json, push) for _ in range(bench.pairs)]
        used, pushed = server.cpu_seconds(), groups * bench.pairs
        return Costs(
            groups_s=groups / median(seconds),
            web_ms=1000 * (used["web"] - before["web"]) / pushed,
            postgres_ms=1000 * (used["postgres"] - before["postgres"]) / pushed,
            client_ms=1000 * (load.cpu_seconds() - client) / pushed,
        )


ROW = Row(
    name="web_processes",
    measure="groups per second from 16 clients, by number of web processes",
    peer="–",
    unit="groups/s",
    better="more",
    mark=None,
    goal=None,
    run=run,
)
