"""Keep a machine of the cluster free of workers and managers, and let it in again."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from django.db import transaction

from rollouts.control.models.fleets import Fleet
from rollouts.control.models.machines import MachineCordon
from rollouts.control.queries.machines import nodes_seen
from runs.live import NO_RUN, announce
from runs.services import record_event
from runs.services.events import ACTOR_LENGTH


class MachineUnknown(LookupError):
    """The cluster has no such node; `field` says where its id was."""

    field = "node"

    def __init__(self, node: str) -> None:
        self.message = f"the cluster has no living node {node}, as it was last seen"
        super().__init__(f"{self.field}: {self.message}")


class InvalidMachineCordon(ValueError):
    """It cannot be cordoned so; `field` says which part."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message


@transaction.atomic
def cordon_machine(*, node: str, reason: str, actor: str, now: datetime) -> None:
    """Have every worker of every run leave a machine, and place nobody there any more.

    Fleets hear of it with their orders. Asking again changes nothing: who was first stays.

    Raises:
        InvalidMachineCordon: If nobody says why.
        MachineUnknown: If no such node was alive when the cluster was last looked at.
    """
    if not reason.strip():
        raise InvalidMachineCordon("reason", "must say why: every page shows it")
    if MachineCordon.objects.filter(node=node).exists():
        return
    hosts = {one["node"]: str(one["host"]) for one in nodes_seen() if one["alive"]}
    if node not in hosts:
        raise MachineUnknown(node)
    values = {
        "host": hosts[node][:200],
        "siblings": [one for one, host in hosts.items() if host == hosts[node] and one != node],
        "reason": reason.strip(),
        "cordoned_at": now,
        "cordoned_by": actor[:ACTOR_LENGTH],
    }
    cordon, is_new = MachineCordon.objects.get_or_create(node=node, defaults=values)
    if is_new:
        what = f"machine {cordon.host or node} is to be emptied and kept out"
        _audit("machine_cordoned", what, cordon, reason=reason, actor=actor, now=now)


@transaction.atomic
def uncordon_machine(*, node: str, reason: str, actor: str, now: datetime) -> None:
    """Let workers and managers onto a machine again; without a cordon nothing happens.

    A node that has left the cluster may be named, too. What drains ends first; who has moved
    stays where they are.
    """
    cordon = MachineCordon.objects.select_for_update().filter(node=node).first()
    if cordon is None:
        return
    cordon.delete()
    what = f"machine {cordon.host or cordon.node} is let in again"
    _audit("machine_uncordoned", what, cordon, reason=reason, actor=actor, now=now)


def follow_machines(*, nodes: Collection[Mapping[str, Any]]) -> int:
    """Keep out machines that left the cluster and came back: Ray calls them by new ids then.

    Args:
        nodes: All that there are now.

    Returns:
        How many came back.
    """
    hosts = {str(node["node"]): node["host"] for node in nodes if node["alive"]}
    followed = 0
    for cordon in MachineCordon.objects.exclude(node__in=hosts):
        closed = set(MachineCordon.objects.values_list("node", flat=True))
        known = closed.union(cordon.siblings)
        new = [node for node, host in hosts.items() if host == cordon.host and node not in known]
        # Of several nodes of one host nobody can say which is the one that was meant.
        if len(new) == 1:
            followed += MachineCordon.objects.filter(pk=cordon.pk).update(node=new[0])
    if followed:
        _tell()
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
    _tell()


def _tell() -> None:
    """Wake the pages that show machines, and every fleet: each may have workers there."""
    announce(NO_RUN, "cluster")
    for run_id in Fleet.objects.exclude(incarnation="").values_list("run_id", flat=True):
        announce(run_id, "errands")
