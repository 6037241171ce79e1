"""The log of a lost worker is read on its node, as long as the node exists."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from rolldeck.operator_requests import LogLines, LogRequest
from tests.ray.fleets import SmallFleet, connected, eventually, runs_on, small_fleet
from tests.ray_nodes import RayNodes, ray_nodes

pytestmark = [
    pytest.mark.ray,
    pytest.mark.full("starts Ray clusters; the journey is in test_platform_and_fleet.py"),
]
NUMBERS = count()


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[RayNodes]:
    """A head for managers, and a node for workers with a separate temporary directory."""
    (tmp_path / "south").mkdir()
    with ray_nodes() as cluster:
        cluster.add("south", temp=tmp_path / "south")
        with connected(cluster.address):
            yield cluster


@pytest.fixture
def fleet(nodes: RayNodes, tmp_path: Path) -> Iterator[SmallFleet]:
    """A fleet whose manager is on another node than its workers."""
    wishes = {"num_workers": 2, "num_cpus_per_worker": 1}
    for number in range(20):
        name = f"fleet{number}"
        with small_fleet(nodes.address, tmp_path / "spool", name=name, **wishes) as fleet:
            # A manager requires no resources, so Ray places it on any node.
            if not runs_on(nodes.nodes["south"], fleet.manager_pid()):
                eventually(fleet.runs)
                yield fleet
                return
    raise AssertionError("every manager was put on the node of the workers")


def read(fleet: SmallFleet, worker: int) -> LogLines:
    """Request a worker's log like the platform, and return the answer."""
    request = LogRequest(id=f"r{next(NUMBERS)}", worker=worker, slot=None, lines=50)
    fleet.platform.log_requests.append(request)
    eventually(lambda: request.id in fleet.platform.log_answers, 60)
    return fleet.platform.log_answers[request.id]


def test_the_log_of_an_ended_worker_is_read_on_its_node(
    nodes: RayNodes, fleet: SmallFleet, tmp_path: Path
) -> None:
    while_there = read(fleet, 1)
    fleet.platform.num_workers = 1
    eventually(lambda: [worker.index for worker in fleet.workers] == [0])

    # The node may exceed the time limit for its first task, so the request is repeated.
    eventually(lambda: read(fleet, 1).lines, 120)
    afterwards = read(fleet, 1)
    assert afterwards.path == while_there.path
    assert Path(afterwards.path).is_relative_to(tmp_path / "south")
    assert "was asked to end" in "\n".join(afterwards.lines)
    assert afterwards.note == ""

    nodes.nodes["south"].kill_raylet()
    eventually(
        lambda: "its node and its log are no longer in the cluster" in read(fleet, 1).note, 60
    )
