"""Find seats for workers on the cluster, and say what is in the way of one.

Here alone Ray is asked things that it has no public call for: what each node has free, and
whether an actor has got a node. Its version is pinned to a minor one, and the tests on a real
cluster hold this module to it.
"""

import time
from typing import Any, Final

import ray
from ray._private import state as ray_state
from ray.util.placement_group import (
    PlacementGroup,
    get_placement_group,
    placement_group,
    placement_group_table,
    remove_placement_group,
)
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from rollouts.core.placement import NodeRoom, group_obstacle, obstacle
from rollouts.fleet.settings import FleetSettings

LOOK_AGAIN_AFTER_SECONDS: Final = 1.0
_STRATEGIES: Final = {"spread": "SPREAD", "pack": "PACK"}


class Seats:
    """The seats of a fleet's workers: reserved together in a placement group, or each its own.

    The group belongs to the manager: Ray removes it when the manager ends for good, however
    that happens, and keeps it when Ray restarts the manager. Worker i has bundle i.
    """

    def __init__(self, settings: FleetSettings) -> None:
        """Reserve nothing yet; the first worker does."""
        fleet = settings.config.fleet
        self._wanted = fleet.worker_resources
        self._workers = fleet.num_workers
        self._kind = _STRATEGIES.get(fleet.placement)
        self._name = f"rolldeck {settings.run} {settings.incarnation}"
        self._group: PlacementGroup | None = None
        self._rooms: list[NodeRoom] = []
        self._looked_at = -LOOK_AGAIN_AFTER_SECONDS

    def strategy(self, index: int) -> Any:
        """Return how Ray shall schedule a worker; never waits for room.

        A worker beyond those that room was reserved for goes where there is some.
        """
        if self._kind is None or index >= self._workers:
            return "DEFAULT"
        return PlacementGroupSchedulingStrategy(
            placement_group=self._reserved(self._kind), placement_group_bundle_index=index
        )

    def obstacle(self, index: int) -> str:
        """Return what the cluster lacks for a worker that has no node yet."""
        if self._group is None or index >= self._workers:
            return obstacle(self._wanted, self._look())
        found = placement_group_table(self._group).get("state")
        if found == "PENDING":
            return group_obstacle(self._wanted, self._look(), workers=self._workers)
        # A node died: Ray looks for another one for its bundles, the others stay.
        return obstacle(self._wanted, self._look()) if found == "RESCHEDULING" else ""

    def close(self) -> None:
        """Give the reserved room back."""
        group, self._group = self._group, None
        if group is not None:
            remove_placement_group(group)

    def _reserved(self, kind: str) -> PlacementGroup:
        if self._group is None:
            try:
                # The cluster has restarted this manager: its reservation is still there.
                self._group = get_placement_group(self._name)
            except ValueError:
                bundles = [dict(self._wanted) for _ in range(self._workers)]
                self._group = placement_group(bundles, strategy=kind, name=self._name)
        return self._group

    def _look(self) -> list[NodeRoom]:
        now = time.monotonic()
        if now - self._looked_at >= LOOK_AGAIN_AFTER_SECONDS:
            self._looked_at, self._rooms = now, rooms()
        return self._rooms


def rooms() -> list[NodeRoom]:
    """Return what each living node has, and what of it is free."""
    free = ray_state.available_resources_per_node()
    return [
        NodeRoom(total=node["Resources"], free=free.get(node["NodeID"], {}))
        for node in ray.nodes()
        if node["Alive"]
    ]


def id_of(actor: Any) -> str:
    """Return the id of an actor; unlike a handle, it keeps nothing alive."""
    found: str = actor._actor_id.hex()  # noqa: SLF001 there is no public way
    return found


def node_of(actor_id: str) -> str:
    """Return the id of the node where an actor has its process, or had it when it ended.

    Empty if it has none yet, or never had one.
    """
    address = ray_state.actors(actor_id).get("Address", {})
    place = address.get("NodeID", ""), address.get("Port", 0)
    # While a node lets it wait, its address is that of the node itself.
    queues = {(node["NodeID"], node["NodeManagerPort"]) for node in ray.nodes()}
    return "" if not place[1] or place in queues else str(place[0])


def is_seated(actor: Any) -> bool:
    """Return whether an actor has got a process on some node; it may still be starting."""
    return bool(node_of(id_of(actor)))


def is_living(node_id: str) -> bool:
    """Return whether a node is part of the cluster."""
    return any(node["NodeID"] == node_id and node["Alive"] for node in ray.nodes())
