"""Usage of a machine over time."""

from datetime import datetime, timedelta
from typing import Final

from rollouts.control.models import MachineSample
from rollouts.control.queries.machines import nodes_seen
from rollouts.control.schemas.machines import MachineHistory, MachinePoint
from web import sql
from web.rules.errors import NotFound

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


class MachineNotSeen(NotFound):
    """The cluster has no such node, and none of its samples are kept."""


def machine_history(node: str, *, hours: int, now: datetime) -> MachineHistory:
    """Return the usage of a machine in the last hours.

    Args:
        node: Ray's id of the node.
        hours: 1 to 168.
        now: Present time.

    Raises:
        MachineNotSeen: If the cluster does not list the node and it has no samples.
    """
    newest = MachineSample.objects.filter(node=node).order_by("-at").first()
    if newest is None and node not in {one["node"] for one in nodes_seen()}:
        raise MachineNotSeen(f"the cluster has no node {node!r}, and no samples of it are kept")
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
