"""Queries for cordoned machines, and for the workers still on them."""

from typing import Any

from django.db.models import Q

from rolldeck.operator_requests import MachineCommand
from rollouts.control.models import Fleet, FleetWorker, MachineCordon
from rollouts.control.queries.page_cursor import ABSENT
from rollouts.control.schemas.machines import MachineCordonRow
from runs.deployment.models import ProcessHeartbeat


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
