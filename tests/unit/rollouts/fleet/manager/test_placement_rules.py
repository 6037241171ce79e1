"""Messages about missing room on the cluster name the missing resource."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollouts.fleet.manager.placement import NodeRoom, Resources, group_obstacle, obstacle


def node(free: dict[str, float] | None = None, **total: float) -> NodeRoom:
    return NodeRoom(total=total, free=total if free is None else free)


@pytest.mark.parametrize(
    ("required", "nodes", "expected"),
    [
        ({"CPU": 64}, [node(CPU=2)], "a worker needs 64 CPU, the cluster has 2"),
        ({"GPU": 0.5}, [node(CPU=2)], "a worker needs 0.5 GPU, the cluster has 0"),
        ({"simulator": 1}, [node(CPU=2)], "a worker needs 1 simulator, the cluster has 0"),
        ({"CPU": 1}, [], "a worker needs 1 CPU, the cluster has 0"),
        (
            {"CPU": 3},
            [node(CPU=2), node(CPU=2)],
            "a worker needs 3 CPU on one node, the largest of 2 has 2",
        ),
        (
            {"CPU": 4, "GPU": 1},
            [node(CPU=4), node(CPU=2, GPU=1)],
            "a worker needs 4 CPU and 1 GPU on one node, no node has all of it",
        ),
        (
            {"CPU": 1},
            [node({"CPU": 0.5}, CPU=2), node({}, CPU=2)],
            "a worker needs 1 CPU, 0.5 of 4 are free on 2 nodes",
        ),
        ({"GPU": 1}, [node({}, GPU=1)], "a worker needs 1 GPU, 0 of 1 are free"),
        (
            {"CPU": 1, "GPU": 1},
            [node({"CPU": 1}, CPU=1, GPU=1), node({"GPU": 1}, CPU=1, GPU=1)],
            "a worker needs 1 CPU and 1 GPU on one node, no node has all of it free",
        ),
        ({"CPU": 1}, [node({}, CPU=1), node(CPU=1)], ""),
        ({}, [node({}, CPU=1)], ""),
    ],
)
def test_obstacles_of_a_worker_are_described(
    required: Resources, nodes: list[NodeRoom], expected: str
) -> None:
    assert obstacle(required, nodes) == expected


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([node(CPU=2), node(CPU=2)], ""),
        (
            [node(CPU=2), node(CPU=1)],
            "4 workers reserve 1 CPU each, together; the cluster has room for 3",
        ),
        (
            [node({"CPU": 1}, CPU=2), node(CPU=2)],
            "4 workers reserve 1 CPU each, together; 3 of 4 such places are free",
        ),
        ([node(GPU=1)], "a worker needs 1 CPU, the cluster has 0"),
    ],
)
def test_obstacles_of_a_reservation_are_described(nodes: list[NodeRoom], expected: str) -> None:
    assert group_obstacle({"CPU": 1}, nodes, workers=4) == expected


def test_tenths_add_up_to_one() -> None:
    free = 1.0
    for _ in range(9):
        free -= 0.1

    assert obstacle({"CPU": 0.1}, [node({"CPU": free}, CPU=1)]) == ""


amounts = st.dictionaries(st.sampled_from(["CPU", "GPU", "simulator"]), st.integers(1, 4))


@given(
    required=amounts,
    nodes=st.lists(st.tuples(amounts, amounts), max_size=4),
    workers=st.integers(1, 6),
)
def test_there_is_an_obstacle_exactly_when_placing_one_by_one_fails(
    required: dict[str, int],
    nodes: list[tuple[dict[str, int], dict[str, int]]],
    workers: int,
) -> None:
    rooms = [
        NodeRoom(total={k: taken.get(k, 0) + v for k, v in {**taken, **free}.items()}, free=free)
        for taken, free in nodes
    ]
    left = [dict(room.free) for room in rooms]
    placed = 0
    for _ in range(workers):
        for room in left:
            if all(room.get(name, 0) >= amount for name, amount in required.items()):
                for name, amount in required.items():
                    room[name] -= amount
                placed += 1
                break

    assert (obstacle(required, rooms) == "") == (placed >= 1)
    assert (group_obstacle(required, rooms, workers=workers) == "") == (placed == workers)
