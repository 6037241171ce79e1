"""Work of a machine that dies continues elsewhere within 30 s."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.processes import is_gone
from tests.ray.fleets import connected, eventually, runs_on, slots_with_gaps, small_fleet
from tests.ray_nodes import Node, RayNodes, ray_nodes

pytestmark = [
    pytest.mark.ray,
    pytest.mark.full("starts Ray clusters; the journey is in test_platform_and_fleet.py"),
]


@pytest.fixture
def nodes() -> Iterator[RayNodes]:
    """Two nodes of two CPUs each in addition to the head; each test kills one of them."""
    with ray_nodes() as cluster:
        cluster.add("north")
        cluster.add("south")
        with connected(cluster.address):
            yield cluster


def node_of(nodes: RayNodes, pid: int | None) -> Node:
    [host] = [node for node in (nodes.head, *nodes.nodes.values()) if runs_on(node, pid)]
    return host


def test_workers_of_a_dead_node_step_on_another_one(
    nodes: RayNodes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wishes = {"num_workers": 2, "num_cpus_per_worker": 1, "placement": "spread"}
    with small_fleet(nodes.address, tmp_path, name="fleet", **wishes) as fleet:
        eventually(fleet.runs)
        managers = node_of(nodes, fleet.manager_pid()).name
        [victim, *_] = [w for w in fleet.workers if node_of(nodes, w.pid).name != managers]
        orphans = {victim.pid, *(slot.pid for slot in victim.slots)} - {None}
        node_of(nodes, victim.pid).kill_raylet()

        def is_back() -> bool:
            worker = fleet.workers[victim.index]
            return worker.incarnation != victim.incarnation and worker.env_steps > 0

        seconds = eventually(is_back)
        eventually(fleet.runs)
        # Leftovers on a living machine have been ended.
        eventually(lambda: all(map(is_gone, orphans)))
        survivor = fleet.workers[1 - victim.index]

    with capsys.disabled():
        report(f"worker's node killed: its worker steps again after {seconds:.1f} s")
    messages = [event.message for report in fleet.platform.reports for event in report.events]
    assert survivor.restarts == 0, messages
    assert slots_with_gaps(fleet) == []
    assert seconds < 30, seconds


def test_a_manager_of_a_dead_node_supervises_its_fleet_on_another_one(
    nodes: RayNodes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wishes = {"num_workers": 2, "num_cpus_per_worker": 1, "placement": "spread"}
    with ExitStack() as launched:
        # A manager requires no resources, so Ray places it on any node; the head must survive.
        for number in range(20):
            name = f"fleet{number}"
            fleet = launched.enter_context(
                small_fleet(nodes.address, tmp_path, name=name, **wishes)
            )
            node = node_of(nodes, fleet.manager_pid())
            if node.name != "head":
                break
            launched.close()
        eventually(fleet.runs)
        before = {worker.incarnation for worker in fleet.workers}
        node.kill_raylet()

        def is_back() -> bool:
            return any(w.env_steps > 0 and w.incarnation not in before for w in fleet.workers)

        seconds = eventually(is_back)
        eventually(lambda: fleet.runs() and not before & {w.incarnation for w in fleet.workers})
        sequences = [report.sequence for report in fleet.platform.reports]

    with capsys.disabled():
        report(f"manager's node killed: the fleet steps again after {seconds:.1f} s")
    assert sequences == sorted(sequences)
    assert slots_with_gaps(fleet) == []
    assert seconds < 30, seconds


def report(text: str) -> None:
    print(f"\n    {text}", flush=True)  # noqa: T201 shows the measured time
