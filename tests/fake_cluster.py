"""In-memory cluster; tests/contract/test_cluster.py compares it with the real one."""

from typing import Any

from rollouts.control.rules import ActorState, LaunchRequest
from rollouts.control.services.ray_cluster import ClusterUnreachable, LaunchRefused

_AMOUNTS = (
    *("cpus", "cpus_used", "gpus", "gpus_used", "memory_bytes", "memory_used_bytes"),
    *("object_store_bytes", "object_store_used_bytes"),
)


def node_row(name: str, *, cpus: float, is_head: bool = False) -> dict[str, Any]:
    """Return an idle node."""
    amounts = dict.fromkeys(_AMOUNTS, 0.0) | {"cpus": cpus, "memory_bytes": 8e9}
    return {"node": f"{name}-id", "host": name, "is_head": is_head, "alive": True, **amounts}


class FakeCluster:
    """Cluster that stores managers in a dictionary; tests can end them or make them hang."""

    def __init__(self) -> None:
        self.actors: dict[str, ActorState] = {}
        self.orders: list[LaunchRequest] = []
        self.killed: list[str] = []
        self.elsewhere: set[str] = set()
        """Managers that report to another platform."""
        self.rows = {"head": node_row("head", cpus=4.0, is_head=True)}
        """Nodes by name."""
        self.is_reachable = True
        self.refuses = ""

    def reach(self) -> None:
        if not self.is_reachable:
            raise ClusterUnreachable("no Ray cluster at 127.0.0.1:1: refused")

    def launch(self, order: LaunchRequest) -> None:
        self.reach()
        if self.refuses:
            raise LaunchRefused(self.refuses)
        if order.actor_name in self.actors:
            return
        self.actors[order.actor_name] = ActorState.ALIVE
        self.orders.append(order)

    def actor_state(self, name: str) -> ActorState:
        self.reach()
        return self.actors.get(name, ActorState.MISSING)

    def kill(self, name: str) -> None:
        self.reach()
        if self.actors.pop(name, None) is not None:
            self.killed.append(name)

    def managers(self, *, platform_url: str) -> list[str]:
        del platform_url  # all managers except those in `elsewhere`
        self.reach()
        answering = (name for name, state in self.actors.items() if state is ActorState.ALIVE)
        return [name for name in answering if name not in self.elsewhere]

    def nodes(self) -> list[dict[str, Any]]:
        self.reach()
        return [dict(row) for row in self.rows.values()]

    def join(self, name: str, *, cpus: float) -> None:
        """Add a node."""
        self.rows[name] = node_row(name, cpus=cpus)

    def reserve(self, name: str, *, cpus: float) -> None:
        """Reserve CPUs of a node for a worker; managers use none."""
        self.rows[name]["cpus_used"] += cpus

    def lose_node(self, name: str) -> None:
        """Mark a node as dead: Ray still lists it, without its resources."""
        nothing = dict.fromkeys(_AMOUNTS, 0.0)
        self.rows[name] = self.rows[name] | nothing | {"alive": False}

    def lose(self, name: str) -> None:
        """Simulate the death of a manager."""
        del self.actors[name]
