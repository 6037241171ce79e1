"""Find seats for workers on the cluster, and say what is in the way of one.

Here alone Ray is asked things that it has no public call for: what each node has free, and
whether an actor has got a node. Its version is pinned to a minor one, and the tests on a real
cluster hold this module to it.
"""

import time
from collections.abc import Iterable
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

from rollouts.fleet.manager.placement import NodeRoom, cordoned_words, group_obstacle, obstacle
from rollouts.fleet.worker.settings import FleetSettings

LOOK_AGAIN_AFTER_SECONDS: Final = 1.0
NODE_ID_LABEL: Final = "ray.io/node-id"
"""What Ray labels every node with by itself."""
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
        self._closed: frozenset[str] = frozenset()
        self._outside: set[int] = set()
        """Workers whose room is where nobody is to be seated."""
        self._rooms: list[NodeRoom] = []
        self._looked_at = -LOOK_AGAIN_AFTER_SECONDS

    def stay_off(self, nodes: frozenset[str]) -> None:
        """Seat nobody on these nodes from now on.

        A reservation that still waits for room is given back: the next worker makes another one.
        """
        self._closed = nodes
        if self._group is not None and self._told_of(self._group).get("state") == "PENDING":
            self.close()

    def placement(self, index: int) -> dict[str, Any]:
        """Return Ray's options for where a worker shall go; never waits for room.

        A worker beyond those that room was reserved for goes where there is some, and so does
        one whose room is on a node where nobody is to be seated.
        """
        self._outside.discard(index)
        if self._kind is not None and index < self._workers:
            group = self._reserved(self._kind)
            if self._bundle_node(group, index) not in self._closed:
                strategy = PlacementGroupSchedulingStrategy(
                    placement_group=group, placement_group_bundle_index=index
                )
                return {"scheduling_strategy": strategy}
            self._outside.add(index)
        return {"scheduling_strategy": "DEFAULT", **anywhere_but(self._closed)}

    def obstacle(self, index: int) -> str:
        """Return what the cluster lacks for a worker that has no node yet."""
        if self._group is None or index >= self._workers or index in self._outside:
            return self._lack(obstacle(self._wanted, self._look()))
        found = self._told_of(self._group).get("state")
        if found == "PENDING":
            return self._lack(group_obstacle(self._wanted, self._look(), workers=self._workers))
        # A node died: Ray looks for another one for its bundles, the others stay.
        return self._lack(obstacle(self._wanted, self._look())) if found == "RESCHEDULING" else ""

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
                labels = [anywhere_but(self._closed).get("label_selector", {}) for _ in bundles]
                self._group = placement_group(
                    bundles,
                    strategy=kind,
                    name=self._name,
                    bundle_label_selector=labels if self._closed else None,
                )
        return self._group

    def _told_of(self, group: PlacementGroup) -> dict[str, Any]:
        found: dict[str, Any] = placement_group_table(group)
        return found

    def _bundle_node(self, group: PlacementGroup, index: int) -> str:
        """Return where a worker's room is; empty while it has none, and when nobody asks."""
        if not self._closed:
            return ""
        return str(self._told_of(group).get("bundles_to_node_id", {}).get(index) or "")

    def _lack(self, said: str) -> str:
        """Return what is lacking with what the cordon of machines has to do with it."""
        return said and said + cordoned_words(self._closed_living)

    def _look(self) -> list[NodeRoom]:
        now = time.monotonic()
        if now - self._looked_at >= LOOK_AGAIN_AFTER_SECONDS:
            self._looked_at, self._rooms = now, rooms()
        return [room for room in self._rooms if room.node not in self._closed]

    @property
    def _closed_living(self) -> int:
        return sum(room.node in self._closed for room in self._rooms)


def anywhere_but(nodes: Iterable[str]) -> dict[str, Any]:
    """Return Ray's option that keeps an actor off some nodes; none where there is no such node."""
    # Ray takes a space behind a comma for a part of the next id, which is then nobody's.
    closed = ",".join(sorted(nodes))
    return {"label_selector": {NODE_ID_LABEL: f"!in({closed})"}} if closed else {}


def rooms() -> list[NodeRoom]:
    """Return what each living node has, and what of it is free."""
    free = ray_state.available_resources_per_node()
    return [
        NodeRoom(node=node["NodeID"], total=node["Resources"], free=free.get(node["NodeID"], {}))
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
