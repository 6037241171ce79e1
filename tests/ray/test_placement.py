"""Placement of workers on a cluster of several nodes, and messages without placement."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rolldeck.operator_requests import MachineCommand
from tests.ray.fleets import (
    SmallFleet,
    connected,
    eventually,
    runs_on,
    slots_with_gaps,
    small_fleet,
)
from tests.ray_nodes import RayNodes, ray_nodes

pytestmark = [
    pytest.mark.ray,
    pytest.mark.full("starts Ray clusters; the journey is in test_platform_and_fleet.py"),
]


@pytest.fixture(scope="module")
def nodes() -> Iterator[RayNodes]:
    """Two nodes of two CPUs each in addition to the head."""
    with ray_nodes() as cluster:
        cluster.add("north")
        cluster.add("south")
        with connected(cluster.address):
            yield cluster


def spread_of(nodes: RayNodes, fleet: SmallFleet) -> dict[str, int]:
    """Return how many workers each node has."""
    counts = {
        name: sum(runs_on(node, worker.pid) for worker in fleet.workers)
        for name, node in nodes.nodes.items()
    }
    return {name: count for name, count in counts.items() if count}


def free_cpus() -> float:
    import ray

    return float(ray.available_resources().get("CPU", 0.0))


def groups_left() -> list[str]:
    from ray.util.placement_group import placement_group_table

    table = placement_group_table()
    return [group["name"] for group in table.values() if group["state"] != "REMOVED"]


@pytest.mark.parametrize(("placement", "taken"), [("spread", 2), ("pack", 1)])
def test_reserved_bundles_are_spread_or_packed_and_released_at_the_end(
    nodes: RayNodes, tmp_path: Path, placement: str, taken: int
) -> None:
    wishes = {"num_workers": 2, "num_cpus_per_worker": 1, "placement": placement}
    with small_fleet(nodes.address, tmp_path, name=placement, **wishes) as fleet:
        eventually(fleet.runs)
        spread = spread_of(nodes, fleet)
        reserved = groups_left()

    assert len(spread) == taken, spread
    assert sum(spread.values()) == 2
    assert len(reserved) == 1
    eventually(lambda: not groups_left() and free_cpus() == 4)


def test_a_stopped_fleet_releases_its_bundles_before_its_manager_ends(
    nodes: RayNodes, tmp_path: Path
) -> None:
    wishes = {"num_workers": 2, "num_cpus_per_worker": 1, "placement": "spread"}
    with small_fleet(nodes.address, tmp_path, name="stopped", **wishes) as fleet:
        eventually(fleet.runs)
        fleet.platform.desired = "stopped"
        eventually(lambda: fleet.report.state == "stopped")
        eventually(lambda: not groups_left() and free_cpus() == 4)


def test_a_reservation_outlives_the_process_of_its_manager(nodes: RayNodes, tmp_path: Path) -> None:
    import os
    import signal

    import ray

    wishes = {"num_workers": 2, "num_cpus_per_worker": 1, "placement": "pack"}
    with small_fleet(nodes.address, tmp_path, name="restarted", **wishes) as fleet:
        eventually(fleet.runs)
        before = {worker.incarnation for worker in fleet.workers}
        os.kill(ray.get(fleet.actor.pid.remote()), signal.SIGKILL)
        eventually(
            lambda: fleet.runs() and not before & {worker.incarnation for worker in fleet.workers}
        )
        assert groups_left() == ["rolldeck restarted 1-restarted"]
    eventually(lambda: not groups_left() and free_cpus() == 4)


def test_a_manager_reserves_no_cpu(nodes: RayNodes, tmp_path: Path) -> None:
    wishes = {"num_workers": 2, "num_cpus_per_worker": 2}
    with small_fleet(nodes.address, tmp_path, name="full", **wishes) as fleet:
        eventually(fleet.runs)

        assert fleet.reason == ""
        assert free_cpus() == 0
    eventually(lambda: free_cpus() == 4)


@pytest.mark.parametrize(
    ("wishes", "expected"),
    [
        ({"num_gpus_per_worker": 1}, "a worker needs 1 GPU, the cluster has 0"),
        (
            {"num_cpus_per_worker": 3},
            "a worker needs 3 CPU on one node, the largest of 3 has 2",
        ),
        (
            {"num_workers": 6, "num_cpus_per_worker": 1, "placement": "spread"},
            "6 workers reserve 1 CPU each, together; the cluster has room for 4",
        ),
    ],
)
def test_a_fleet_without_a_placement_has_a_reason_within_ten_seconds(
    nodes: RayNodes, tmp_path: Path, wishes: dict[str, object], expected: str
) -> None:
    with small_fleet(nodes.address, tmp_path, name=f"no {expected[:20]}", **wishes) as fleet:
        # Starting a manager process is slow while other tests run.
        eventually(lambda: fleet.platform.reports)
        seconds = eventually(lambda: fleet.reason)

        assert fleet.reason == expected
        assert fleet.report.state == "starting"
        assert seconds < 10
        assert fleet.platform.events().count("fleet_unschedulable") == 1


def test_a_waiting_fleet_starts_once_another_releases_its_resources(
    nodes: RayNodes, tmp_path: Path
) -> None:
    with small_fleet(nodes.address, tmp_path, name="first", num_cpus_per_worker=2) as first:
        eventually(first.runs)
        wishes = {"num_workers": 2, "num_cpus_per_worker": 2}
        with small_fleet(nodes.address, tmp_path, name="second", **wishes) as second:
            eventually(lambda: second.reason)
            assert second.reason == "a worker needs 2 CPU, 0 of 4 are free on 2 nodes"
            # Workers that can be placed run in the meantime.
            eventually(lambda: sorted(w.env_steps > 0 for w in second.workers) == [False, True])
            first.platform.desired = "stopped"
            eventually(second.runs)
            eventually(lambda: second.reason == "")
            eventually(lambda: "fleet_schedulable" in second.platform.events())


@pytest.mark.parametrize("placement", ["auto", "spread"])
def test_workers_leave_a_cordoned_machine_without_lost_or_duplicate_steps(
    nodes: RayNodes, tmp_path: Path, placement: str, capsys: pytest.CaptureFixture[str]
) -> None:
    wishes = {"num_workers": 2, "num_cpus_per_worker": 1, "placement": placement}
    with small_fleet(nodes.address, tmp_path, name=f"leaving {placement}", **wishes) as fleet:
        eventually(fleet.runs)
        [north] = {worker.node_id for worker in fleet.workers if worker.index == 0}
        before = {worker.incarnation: worker.node_id for worker in fleet.workers}
        leaving = {worker for worker, node in before.items() if node == north}
        order = MachineCommand(node=north, host="north", reason="its fan is loud")
        fleet.platform.machines = [order]

        def has_disconnected() -> bool:
            return fleet.runs() and north not in {worker.node_id for worker in fleet.workers}

        seconds = eventually(has_disconnected)
        now = {worker.incarnation for worker in fleet.workers}
        assert now & set(before) == set(before) - leaving
        messages = fleet.platform.messages("worker_leaves_machine")
        assert len(messages) == len(leaving), messages
        assert messages[0].endswith("its machine north is cordoned: its fan is loud")
        assert fleet.platform.events().count("worker_respawned") == 0

        # The other machine is full, and the third worker must not use the room here.
        fleet.platform.num_workers = 3
        eventually(lambda: fleet.reason)
        assert fleet.reason == "a worker needs 1 CPU, 0 of 2 are free; 1 machine is cordoned"
        fleet.platform.machines = []
        eventually(lambda: len(fleet.workers) == 3 and fleet.runs())
        assert north in {worker.node_id for worker in fleet.workers}
        eventually(lambda: fleet.reason == "")
        lost = [worker.dropped_steps for worker in fleet.workers]

    with capsys.disabled():
        print(f"\n    {placement}: a machine is empty, its workers step elsewhere: {seconds:.1f} s")  # noqa: T201
    assert not [dropped for dropped in lost if "worker_lost" in dropped]
    assert slots_with_gaps(fleet) == []
    assert fleet.platform.duplicates == 0
    eventually(lambda: not groups_left() and free_cpus() == 4)


@pytest.mark.parametrize("placement", ["auto", "pack"])
def test_neither_manager_nor_workers_start_on_a_cordoned_machine(
    nodes: RayNodes, tmp_path: Path, placement: str
) -> None:
    import ray

    # The head cannot take a worker that needs a CPU, but a manager needs none.
    free = next(node["NodeID"] for node in ray.nodes() if node["Resources"].get("CPU"))
    closed = [MachineCommand(node=node["NodeID"]) for node in ray.nodes() if node["NodeID"] != free]
    wishes = {"num_workers": 2, "num_cpus_per_worker": 1, "placement": placement}
    name = f"kept out {placement}"
    with small_fleet(nodes.address, tmp_path, name=name, machines=closed, **wishes) as fleet:
        eventually(lambda: fleet.runs() and {worker.node_id for worker in fleet.workers} == {free})

        assert fleet.report.node_id == free
        assert fleet.platform.messages("worker_leaves_machine") == []
    eventually(lambda: not groups_left() and free_cpus() == 4)


@pytest.mark.last("a cluster does not shrink again")
def test_a_waiting_fleet_starts_once_a_node_with_its_resource_joins(
    nodes: RayNodes, tmp_path: Path
) -> None:
    wishes = {"resources": {"simulator": 0.5}}
    with small_fleet(nodes.address, tmp_path, name="waiting", **wishes) as fleet:
        eventually(lambda: fleet.reason)
        assert fleet.reason == "a worker needs 0.5 simulator, the cluster has 0"

        nodes.add("late", cpus=1, simulator=1)
        eventually(fleet.runs)
        eventually(lambda: fleet.reason == "")
        assert runs_on(nodes.nodes["late"], fleet.workers[0].pid)
