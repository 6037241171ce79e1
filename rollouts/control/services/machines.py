"""Machines of the cluster: their cordons, samples of their usage, and the list of nodes."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
from django.db import transaction

from rolldeck.wire import WorkerReport
from rollouts.control.models import Fleet, MachineCordon, MachineSample
from rollouts.control.queries.machines import nodes_seen
from rollouts.control.rules import is_valid_machine
from rollouts.control.services.ray_cluster import Cluster, ClusterUnreachable
from runs.deployment.models import ProcessHeartbeat
from runs.deployment.services import record_failed_check, record_heartbeat
from runs.events.services import ACTOR_LENGTH, record_event
from web.live.announcements import NO_RUN, announce
from web.rules.errors import FieldError, InvalidField, NotFound

KEPT_FOR: Final = timedelta(days=7)
KIND = "ray"


class MachineUnknown(FieldError, NotFound):
    """The cluster has no such node; `field` names the field of its id."""


@transaction.atomic
def cordon_machine(*, node: str, reason: str, actor: str, now: datetime) -> None:
    """Drain all workers of a machine, and place none there any more.

    Fleets receive the cordon with their commands. Repeated calls change nothing: the first cordon
    stays.

    Raises:
        InvalidField: If no reason is given.
        MachineUnknown: If the node was not alive when the cluster was last read.
    """
    if not reason.strip():
        raise InvalidField("reason", "must not be empty: it is shown to all users")
    if MachineCordon.objects.filter(node=node).exists():
        return
    hosts = {one["node"]: str(one["host"]) for one in nodes_seen() if one["alive"]}
    if node not in hosts:
        raise MachineUnknown("node", f"node {node} is not among the cluster's living nodes")
    values = {
        "host": hosts[node][:200],
        "siblings": [one for one, host in hosts.items() if host == hosts[node] and one != node],
        "reason": reason.strip(),
        "cordoned_at": now,
        "cordoned_by": actor[:ACTOR_LENGTH],
    }
    cordon, is_new = MachineCordon.objects.get_or_create(node=node, defaults=values)
    if is_new:
        what = f"cordoned machine {cordon.host or node}"
        _audit("machine_cordoned", what, cordon, reason=reason, actor=actor, now=now)


@transaction.atomic
def uncordon_machine(*, node: str, reason: str, actor: str, now: datetime) -> None:
    """Lift a machine's cordon; does nothing without a cordon.

    Nodes that have left the cluster are allowed. Draining workers end first, and moved workers stay
    where they are.
    """
    cordon = MachineCordon.objects.select_for_update().filter(node=node).first()
    if cordon is None:
        return
    cordon.delete()
    what = f"lifted the cordon of machine {cordon.host or cordon.node}"
    _audit("machine_uncordoned", what, cordon, reason=reason, actor=actor, now=now)


def follow_machines(*, nodes: Collection[Mapping[str, Any]]) -> int:
    """Transfer cordons to machines that rejoined the cluster under new Ray ids.

    Args:
        nodes: All present nodes.

    Returns:
        Number of machines that rejoined.
    """
    hosts = {str(node["node"]): node["host"] for node in nodes if node["alive"]}
    followed = 0
    for cordon in MachineCordon.objects.exclude(node__in=hosts):
        closed = set(MachineCordon.objects.values_list("node", flat=True))
        known = closed.union(cordon.siblings)
        new = [node for node, host in hosts.items() if host == cordon.host and node not in known]
        # If a host has several nodes, the cordoned one cannot be identified.
        if len(new) == 1:
            followed += MachineCordon.objects.filter(pk=cordon.pk).update(node=new[0])
    if followed:
        _announce()
    return followed


def _audit(
    kind: str, message: str, cordon: MachineCordon, *, reason: str, actor: str, now: datetime
) -> None:
    record_event(
        run_id=None,
        kind=kind,
        message=message,
        actor=actor,
        reason=reason.strip(),
        details={"node": cordon.node, "host": cordon.host},
        now=now,
    )
    _announce()


def _announce() -> None:
    """Notify the pages that show machines, and all fleets: any may have workers there."""
    announce(NO_RUN, "cluster")
    for run_id in Fleet.objects.exclude(incarnation="").values_list("run_id", flat=True):
        announce(run_id, "operator_requests")


@transaction.atomic
def record_machine_samples(*, workers: Iterable[WorkerReport], now: datetime) -> int:
    """Store the first measurement of each machine in the present minute; return their number.

    Invalid measurements are ignored, and machines that the cluster did not list when it was last
    read: a fleet can name no others.
    """
    reported = {
        worker.node_id: worker.machine
        for worker in workers
        if worker.machine is not None and worker.node_id and is_valid_machine(worker.machine)
    }
    if not reported:
        return 0
    minute = now.replace(second=0, microsecond=0)
    there = MachineSample.objects.filter(node__in=reported, at=minute)
    new = set(reported) - set(there.values_list("node", flat=True))
    if not new:
        return 0
    # In a fixed order, so that two runs with the same machines do not deadlock.
    known = sorted(new & {node["node"] for node in nodes_seen()})
    samples = [
        MachineSample(node=node, at=minute, **msgspec.structs.asdict(reported[node]))
        for node in known
    ]
    MachineSample.objects.bulk_create(samples, ignore_conflicts=True)
    return len(samples)


@transaction.atomic
def delete_old_machine_samples(*, now: datetime) -> int:
    """Delete samples older than a week; return their number."""
    return MachineSample.objects.filter(at__lt=now - KEPT_FOR).delete()[0]


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
