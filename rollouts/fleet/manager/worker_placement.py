"""Placement of workers on the cluster, and the reasons that prevent it."""

import time
from collections.abc import Iterable
from typing import Any, Final

import ray
from ray.util.placement_group import (
    PlacementGroup,
    get_placement_group,
    placement_group,
    placement_group_table,
    remove_placement_group,
)
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from rollouts.fleet import ray_internals
from rollouts.fleet.manager.placement import NodeRoom, cordon_note, group_obstacle, obstacle
from rollouts.fleet.process.settings import FleetSettings

POLL_AFTER_SECONDS: Final = 1.0
_STRATEGIES: Final = {"spread": "SPREAD", "pack": "PACK"}


class WorkerPlacement:
    """Placement of a fleet's workers: in one placement group, or each on its own.

    The manager owns the group. Ray removes the group when the manager ends for good, and keeps
    it when Ray restarts the manager. Worker i uses bundle i.
    """

    def __init__(self, settings: FleetSettings) -> None:
        """Prepare the placement; the first worker makes the reservation."""
        fleet = settings.config.fleet
        self._wanted = fleet.worker_resources
        self._workers = fleet.num_workers
        self._kind = _STRATEGIES.get(fleet.placement)
        self._name = f"rolldeck {settings.run} {settings.incarnation}"
        self._group: PlacementGroup | None = None
        self._closed: frozenset[str] = frozenset()
        self._outside: set[int] = set()
        """Workers whose reserved bundle is on an excluded node."""
        self._rooms: list[NodeRoom] = []
        self._read_at = -POLL_AFTER_SECONDS

    def exclude_nodes(self, nodes: frozenset[str]) -> None:
        """Place no further workers on these nodes.

        A reservation that is still pending is released; the next worker makes a new one.
        """
        self._closed = nodes
        if self._group is not None and self._group_options(self._group).get("state") == "PENDING":
            self.close()

    def placement(self, index: int) -> dict[str, Any]:
        """Return Ray's scheduling options for a worker, without waiting for resources.

        A worker without a bundle, or whose bundle is on an excluded node, is placed on any other
        node with enough room.
        """
        self._outside.discard(index)
        if self._kind is not None and index < self._workers:
            group = self._reserved(self._kind)
            nodes = self._group_options(group).get("bundles_to_node_id", {}) if self._closed else {}
            if nodes.get(index) not in self._closed:
                strategy = PlacementGroupSchedulingStrategy(
                    placement_group=group, placement_group_bundle_index=index
                )
                return {"scheduling_strategy": strategy}
            self._outside.add(index)
        return {"scheduling_strategy": "DEFAULT", **anywhere_but(self._closed)}

    def obstacle(self, index: int) -> str:
        """Return which resources the cluster lacks for a worker that has no node yet."""
        state = None
        if self._group is not None and index < self._workers and index not in self._outside:
            state = self._group_options(self._group).get("state")
            # If a node died, Ray reschedules its bundles and keeps the others.
            if state not in ("PENDING", "RESCHEDULING"):
                return ""
        now = time.monotonic()
        if now - self._read_at >= POLL_AFTER_SECONDS:
            self._read_at, self._rooms = now, rooms()
        nodes = [room for room in self._rooms if room.node not in self._closed]
        if state == "PENDING":
            lacking = group_obstacle(self._wanted, nodes, workers=self._workers)
        else:
            lacking = obstacle(self._wanted, nodes)
        return lacking and lacking + cordon_note(len(self._rooms) - len(nodes))

    def close(self) -> None:
        group, self._group = self._group, None
        if group is not None:
            remove_placement_group(group)

    def _reserved(self, kind: str) -> PlacementGroup:
        if self._group is None:
            try:
                # Ray restarted this manager, so its reservation still exists.
                self._group = get_placement_group(self._name)
            except ValueError:
                bundles = [dict(self._wanted) for _ in range(self._workers)]
                labels = [anywhere_but(self._closed).get("label_selector", {}) for _ in bundles]
                self._group = placement_group(
                    bundles,
                    strategy=kind,
                    name=self._name,
                    bundle_label_selector=labels if self._closed else None,
                )
        return self._group

    def _group_options(self, group: PlacementGroup) -> dict[str, Any]:
        found: dict[str, Any] = placement_group_table(group)
        return found


def anywhere_but(nodes: Iterable[str]) -> dict[str, Any]:
    """Return Ray's option that excludes nodes for an actor; empty if there are none."""
    # Ray would take a space after a comma as part of the next id.
    closed = ",".join(sorted(nodes))
    return {"label_selector": {ray_internals.NODE_ID_LABEL: f"!in({closed})"}} if closed else {}


def rooms() -> list[NodeRoom]:
    """Return the total and free resources of each living node."""
    free = ray_internals.free_resources()
    return [
        NodeRoom(node=node["NodeID"], total=node["Resources"], free=free.get(node["NodeID"], {}))
        for node in ray.nodes()
        if node["Alive"]
    ]


def is_placed(actor: Any) -> bool:
    """Return whether an actor has a process on some node; it may still be starting."""
    return bool(ray_internals.node_of(ray_internals.id_of(actor)))


def is_living(node_id: str) -> bool:
    """Return whether a node is part of the cluster."""
    return any(node["NodeID"] == node_id and node["Alive"] for node in ray.nodes())
