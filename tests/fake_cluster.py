"""A cluster in memory, held to the real one by tests/contract/test_cluster.py."""

from typing import Any

from rollouts.cluster import ClusterUnreachable, LaunchRefused
from rollouts.core.launch import LaunchOrder
from rollouts.core.reconcile import ActorState


class FakeCluster:
    """Keeps managers in a dictionary; tests reach in and let them die or hang."""

    def __init__(self) -> None:
        self.actors: dict[str, ActorState] = {}
        self.orders: list[LaunchOrder] = []
        self.killed: list[str] = []
        self.elsewhere: set[str] = set()
        """Managers that report to another platform."""
        self.is_reachable = True
        self.refuses = ""

    def reach(self) -> None:
        if not self.is_reachable:
            raise ClusterUnreachable("no Ray cluster at 127.0.0.1:1: refused")

    def launch(self, order: LaunchOrder) -> None:
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
        del platform_url  # everybody's but those in `elsewhere`
        self.reach()
        answering = (name for name, state in self.actors.items() if state is ActorState.ALIVE)
        return [name for name in answering if name not in self.elsewhere]

    def nodes(self) -> list[dict[str, Any]]:
        self.reach()
        head = {"node": "a1", "host": "head", "is_head": True, "alive": True}
        cpus = {"cpus": 4.0, "cpus_used": float(len(self.actors)), "gpus": 0.0, "gpus_used": 0.0}
        return [head | cpus | {"memory_bytes": 8e9, "memory_used_bytes": 0.0}]

    def lose(self, name: str) -> None:
        """Let a manager die on its own."""
        del self.actors[name]
