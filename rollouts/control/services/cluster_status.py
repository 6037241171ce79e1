"""Storage of the cluster's nodes."""

from datetime import datetime, timedelta

from django.db import transaction

from rollouts.control.services.machine_cordons import follow_machines
from rollouts.control.services.ray_cluster import Cluster, ClusterUnreachable
from runs.deployment.models import ProcessHeartbeat
from runs.deployment.services import record_failed_check, record_heartbeat

KIND = "ray"


def record_cluster_nodes(
    *, cluster: Cluster, address: str, unless_newer_than_seconds: float = 0.0, now: datetime
) -> bool:
    """Store the nodes of the cluster at `address`, or that it is unreachable.

    Returns:
        Whether the cluster was read: not if the last reading is newer than
        `unless_newer_than_seconds`.
    """
    since = now - timedelta(seconds=unless_newer_than_seconds)
    if ProcessHeartbeat.objects.filter(kind=KIND, name=address, confirmed_at__gt=since).exists():
        return False
    try:
        nodes = cluster.nodes()
    except ClusterUnreachable as error:
        record_failed_check(kind=KIND, name=address, problem=str(error), now=now)
        return True
    with transaction.atomic():
        record_heartbeat(kind=KIND, name=address, started_at=now, details={"nodes": nodes}, now=now)
        follow_machines(nodes=nodes)
    return True
