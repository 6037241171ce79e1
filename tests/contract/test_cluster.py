"""The in-memory cluster and the real one behave alike."""

import time
from collections.abc import Callable
from uuid import uuid4

import pytest

from rollouts.control.rules import ActorState, LaunchRequest
from rollouts.control.services.ray_cluster import Cluster, ClusterUnreachable, RayCluster
from runs.config.rules.run_config import RunConfig, to_builtins
from tests.fake_cluster import FakeCluster
from tests.waiting import within

ON_BOTH = ["fake", pytest.param("ray", marks=pytest.mark.ray)]


@pytest.fixture(params=ON_BOTH)
def cluster(request: pytest.FixtureRequest) -> Cluster:
    if request.param == "fake":
        return FakeCluster()
    return RayCluster(request.getfixturevalue("ray_head").address)


@pytest.fixture(params=ON_BOTH)
def dead_cluster(request: pytest.FixtureRequest) -> Cluster:
    if request.param == "ray":
        return RayCluster("127.0.0.1:1")
    cluster = FakeCluster()
    cluster.is_reachable = False
    return cluster


def order() -> LaunchRequest:
    name = f"rolldeck-contract-{uuid4().hex[:8]}"
    return LaunchRequest(
        actor_name=name,
        incarnation="1-contract",
        run="contract",
        config=to_builtins(RunConfig()),
        # Nothing listens there: a manager must survive without its platform.
        platform_url="http://127.0.0.1:1",
        token="rd_contract",
    )


def until(expected: ActorState, state: Callable[[], ActorState]) -> bool:
    return within(40, lambda: state() is expected)


def test_a_manager_that_was_never_launched_is_missing(cluster: Cluster) -> None:
    assert cluster.actor_state("rolldeck-nobody-1") is ActorState.MISSING


def test_a_launched_manager_runs_until_it_is_killed(cluster: Cluster) -> None:
    given = order()

    cluster.launch(given)
    lived = until(ActorState.ALIVE, lambda: cluster.actor_state(given.actor_name))
    cluster.kill(given.actor_name)

    assert lived
    assert until(ActorState.MISSING, lambda: cluster.actor_state(given.actor_name))


def test_a_repeated_launch_starts_one_manager(cluster: Cluster) -> None:
    given = order()

    cluster.launch(given)
    cluster.launch(given)
    cluster.kill(given.actor_name)

    assert until(ActorState.MISSING, lambda: cluster.actor_state(given.actor_name))


def test_the_managers_of_a_platform_are_those_that_report_to_it(cluster: Cluster) -> None:
    given = order()
    cluster.launch(given)

    def own_managers() -> list[str]:
        return cluster.managers(platform_url=given.platform_url)

    def alive() -> ActorState:
        return cluster.actor_state(given.actor_name)

    lived = until(ActorState.ALIVE, alive)
    is_listed = given.actor_name in own_managers()
    if isinstance(cluster, FakeCluster):
        cluster.elsewhere.add(given.actor_name)
        found_elsewhere = given.actor_name in own_managers()
    else:
        found_elsewhere = given.actor_name in cluster.managers(platform_url="http://other")
    cluster.kill(given.actor_name)
    is_missing = until(ActorState.MISSING, alive)

    assert lived
    assert is_listed
    assert not found_elsewhere
    assert is_missing
    assert given.actor_name not in own_managers()


def test_killing_a_missing_manager_is_allowed(cluster: Cluster) -> None:
    cluster.kill("rolldeck-nobody-1")


def test_an_unreachable_cluster_is_reported_soon(dead_cluster: Cluster) -> None:
    calls: list[Callable[[], object]] = [
        dead_cluster.reach,
        lambda: dead_cluster.launch(order()),
        lambda: dead_cluster.actor_state("rolldeck-nobody-1"),
        lambda: dead_cluster.kill("rolldeck-nobody-1"),
        lambda: dead_cluster.managers(platform_url="http://127.0.0.1:1"),
        dead_cluster.nodes,
    ]
    began = time.monotonic()

    for call in calls:
        with pytest.raises(ClusterUnreachable, match="no Ray cluster at"):
            call()

    assert time.monotonic() - began < 20
