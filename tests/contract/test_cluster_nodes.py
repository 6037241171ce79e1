"""The in-memory cluster and a real one of three nodes report the same about their nodes."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import msgspec
import pytest

from config.cluster.messages import RayNode
from rollouts.control.services.ray_cluster import Cluster, RayCluster
from rollouts.fleet.ray_internals import disconnect_from_ray
from tests.fake_cluster import FakeCluster
from tests.ray_nodes import RayNodes, ray_nodes

CPUS = {"one": 2.0, "two": 3.0}


class World(Protocol):
    """A cluster with a head and two nodes, and operations on it."""

    @property
    def cluster(self) -> Cluster:
        """Return the interface to the cluster."""

    def reserve(self, name: str, *, cpus: float) -> None:
        """Reserve CPUs of a node by an actor that lives as long as the cluster."""

    def kill(self, name: str) -> None:
        """Kill a node."""


class FakeWorld:
    def __init__(self) -> None:
        self.cluster = FakeCluster()
        for name, cpus in CPUS.items():
            self.cluster.join(name, cpus=cpus)
        self.reserve, self.kill = self.cluster.reserve, self.cluster.lose_node


class RayWorld:
    def __init__(self, nodes: RayNodes) -> None:
        self.nodes, self.cluster = nodes, RayCluster(nodes.address, namespace="nodes")
        for name, cpus in CPUS.items():
            nodes.add(name, cpus=cpus, **{name: 1})

    def reserve(self, name: str, *, cpus: float) -> None:
        import ray

        class Seat:
            def is_taken(self) -> bool:
                return True

        ray.init(address=self.nodes.address, namespace="nodes", log_to_driver=False)
        try:
            made: Any = ray.remote(Seat)
            seat = made.options(
                name="seat", lifetime="detached", num_cpus=cpus, resources={name: 1}
            )
            assert ray.get(seat.remote().is_taken.remote(), timeout=60)
        finally:
            disconnect_from_ray()

    def kill(self, name: str) -> None:
        self.nodes.nodes[name].kill_raylet()


@contextmanager
def world_of(kind: str) -> Iterator[World]:
    if kind == "fake":
        yield FakeWorld()
    else:
        with ray_nodes() as nodes:
            yield RayWorld(nodes)


def list_nodes(cluster: Cluster) -> list[RayNode]:
    """Return the nodes, after a check of their fields."""
    rows = cluster.nodes()
    for row in rows:
        assert set(row) == set(RayNode.__struct_fields__)
    return msgspec.convert(rows, list[RayNode])


def eventually(cluster: Cluster, holds: Callable[[list[RayNode]], bool]) -> list[RayNode]:
    deadline = time.monotonic() + 90
    while not holds(nodes := list_nodes(cluster)):
        assert time.monotonic() < deadline, nodes
        time.sleep(0.05)
    return nodes


def of(nodes: list[RayNode], name: str) -> RayNode:
    """Return the node called `name`, identified by its number of CPUs: all share one host name."""
    (matching,) = [node for node in nodes if not node.is_head and node.cpus == CPUS[name]]
    return matching


def sums(nodes: list[RayNode]) -> dict[str, Any]:
    return {name: sum(getattr(node, name) for node in nodes) for name in ("cpus_used", "gpus_used")}


@pytest.mark.parametrize(
    "kind",
    [
        "fake",
        pytest.param("ray", marks=[pytest.mark.ray, pytest.mark.full("starts a cluster of nodes")]),
    ],
)
def test_nodes_have_resources_reservations_and_status(kind: str) -> None:
    with world_of(kind) as world:
        idle = eventually(world.cluster, lambda nodes: len(nodes) == 3)
        assert [node.is_head for node in idle].count(True) == 1
        assert all(node.alive and node.host and node.memory_bytes > 0 for node in idle)
        assert len({node.node for node in idle}) == 3
        assert sums(idle) == {"cpus_used": 0.0, "gpus_used": 0.0}

        world.reserve("two", cpus=2)
        taken = eventually(world.cluster, lambda nodes: of(nodes, "two").cpus_used == 2.0)
        assert sums(taken) == {"cpus_used": 2.0, "gpus_used": 0.0}
        assert {node.node for node in taken} == {node.node for node in idle}
        assert all(node.cpus_used <= node.cpus for node in taken)

        removed = of(taken, "one").node
        world.kill("one")
        left = eventually(world.cluster, lambda nodes: not all(node.alive for node in nodes))
        (dead,) = [node for node in left if not node.alive]
        assert (dead.node, dead.cpus, dead.cpus_used, dead.memory_bytes) == (removed, 0.0, 0.0, 0.0)
        assert of(left, "two").cpus_used == 2.0
