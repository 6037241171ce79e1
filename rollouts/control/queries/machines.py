"""Queries for machines: their workers, cordons, and usage over time."""

from datetime import datetime, timedelta
from typing import Any, Final

from django.db.models import Count, Q

from rolldeck.operator_requests import MachineCommand
from rollouts.control.models import Fleet, FleetWorker, MachineCordon, MachineSample
from rollouts.control.schemas import MachineCordonRow, MachineHistory, MachinePoint
from runs.deployment.models import ProcessHeartbeat
from web import sql
from web.rules.errors import NotFound

ABSENT: Final = ("stopped", "failed", "respawning")
"""States of workers without a node."""
POINTS_AT_MOST: Final = 360
HOURS_AT_MOST: Final = 168
_MINUTE: Final = 60
_POINTS: Final = """
    SELECT g.at, b.cpu_cores, b.memory_bytes, b.gpu_percent, b.gpu_memory_bytes
    FROM generate_series(%(first)s, %(last)s, %(step)s) AS g(at)
    LEFT JOIN (
        SELECT date_bin(%(step)s, at, %(first)s) AS at, avg(cpu_cores) AS cpu_cores,
            avg(memory_bytes)::float8 AS memory_bytes, avg(gpu_percent) AS gpu_percent,
            avg(gpu_memory_bytes)::float8 AS gpu_memory_bytes
        FROM rollouts_machinesample
        WHERE node = %(node)s AND at >= %(first)s AND at < %(last)s + %(step)s
        GROUP BY 1
    ) b ON b.at = g.at
    ORDER BY g.at"""


def nodes_seen() -> list[dict[str, Any]]:
    """Return the cluster's nodes as last read; empty before the first reading."""
    looks = (
        ProcessHeartbeat.objects.filter(kind="ray").exclude(details={}).order_by("-confirmed_at")
    )
    found = looks.values_list("details", flat=True).first() or {}
    nodes: list[dict[str, Any]] = found.get("nodes", [])
    return nodes


def pending_machine_cordons() -> list[MachineCommand]:
    """Return the machines to be emptied."""
    rows = MachineCordon.objects.order_by("node").values_list("node", "host", "reason")
    return [MachineCommand(node=node, host=host, reason=reason) for node, host, reason in rows]


def closed_nodes() -> tuple[str, ...]:
    """Return the ids of nodes on which no manager may be placed."""
    return tuple(MachineCordon.objects.order_by("node").values_list("node", flat=True))


def why_no_machine() -> str:
    """Return why no manager can be placed if every machine is cordoned; empty otherwise."""
    closed = set(closed_nodes())
    alive = [node for node in nodes_seen() if node["alive"]] if closed else []
    if not alive or any(node["node"] not in closed for node in alive):
        return ""
    count = "the only machine is" if len(alive) == 1 else f"all {len(alive)} machines are"
    return f"{count} cordoned: lift a cordon to start fleets"


def machine_cordons() -> list[MachineCordonRow]:
    """Return all cordons with the workers still on each machine, newest first."""
    return [_row(cordon) for cordon in MachineCordon.objects.order_by("-cordoned_at", "node")]


def machine_cordon(node: str) -> MachineCordonRow | None:
    """Return the cordon of one machine; None if it has none."""
    found = MachineCordon.objects.filter(node=node).first()
    return None if found is None else _row(found)


def _row(cordon: MachineCordon) -> MachineCordonRow:
    # Fleets of older versions report only the host.
    here = Q(node_id=cordon.node) | Q(node_id="", node=cordon.host)
    workers = FleetWorker.objects.exclude(fleet__incarnation="").exclude(state__in=ABSENT)
    managers = Fleet.objects.exclude(incarnation="").filter(node_id=cordon.node)
    return MachineCordonRow(
        node=cordon.node,
        host=cordon.host,
        reason=cordon.reason,
        cordoned_by=cordon.cordoned_by,
        cordoned_at=cordon.cordoned_at,
        workers=workers.exclude(node="").filter(here).count(),
        managers=list(managers.order_by("run__name").values_list("run__name", flat=True)),
    )


def workers_by_node() -> list[tuple[str, str, str, str, int]]:
    """Return the number of workers of each run on each node, as last reported.

    Returns:
        Host and Ray id of the node, the run's name and id, and the number of workers.
    """
    there = FleetWorker.objects.exclude(fleet__incarnation="").exclude(node="")
    names = ("node", "node_id", "fleet__run__name", "fleet__run__uid")
    rows = there.exclude(state__in=ABSENT).values_list(*names).annotate(workers=Count("pk"))
    return list(rows.order_by("node", "fleet__run__name", "node_id"))


def machine_history(node: str, *, hours: int, now: datetime) -> MachineHistory:
    """Return the usage of a machine in the last 1 to 168 hours.

    Raises:
        NotFound: If the cluster does not list the node and it has no samples.
    """
    newest = MachineSample.objects.filter(node=node).order_by("-at").first()
    if newest is None and node not in {one["node"] for one in nodes_seen()}:
        raise NotFound(f"the cluster has no node {node!r}, and no samples of it are kept")
    step = timedelta(seconds=step_seconds(hours))
    # Intervals begin at multiples of their length, so a growing chart keeps its points.
    last = now - timedelta(seconds=now.timestamp() % step.total_seconds())
    first = last - timedelta(hours=hours) + step
    if newest is not None and newest.at < first:
        newest = None
    parameters = {"node": node, "first": first, "last": last, "step": step}
    with sql.cursor() as cursor:
        rows = cursor.execute(_POINTS, parameters).fetchall()
    return MachineHistory(
        node=node,
        step_seconds=int(step.total_seconds()),
        cpus=newest.cpus if newest else None,
        memory_total_bytes=newest.memory_total_bytes if newest else None,
        gpus=newest.gpus if newest else None,
        gpu_memory_total_bytes=newest.gpu_memory_total_bytes if newest else None,
        points=[
            MachinePoint(
                at=at,
                cpu_cores=cpu_cores,
                memory_bytes=memory_bytes,
                gpu_percent=gpu_percent,
                gpu_memory_bytes=gpu_memory_bytes,
            )
            for at, cpu_cores, memory_bytes, gpu_percent, gpu_memory_bytes in rows
        ],
    )


def step_seconds(hours: int) -> int:
    """Return the length of an interval: whole minutes, at most 360 intervals in the range."""
    minutes = -(-hours * _MINUTE // POINTS_AT_MOST)
    return _MINUTE * minutes
