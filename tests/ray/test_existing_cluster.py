"""A fleet on an existing cluster, whose nodes have the libraries but not this code."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

import rolldeck
import rollouts
import runs
from rollouts.control.rules import ActorState, LaunchRequest
from rollouts.control.services.ray_cluster import LaunchRefused, RayCluster
from runs.config.rules import run_config
from tests.ray.fleets import SMALL, SmallPlatform, eventually, served
from tests.ray_nodes import RayNodes, ray_nodes

pytestmark = [
    pytest.mark.ray,
    pytest.mark.full("starts Ray clusters; the journey is in test_platform_and_fleet.py"),
]

BARE = Path(__file__).parent / "bare_machine"
# As in docs/howto/ray-cluster.md.
OUR_PACKAGES = [str(Path(str(package.__file__)).parent) for package in (rollouts, runs, rolldeck)]


@pytest.fixture(scope="module")
def nodes() -> Iterator[RayNodes]:
    with ray_nodes(code=[BARE]) as cluster:
        cluster.add("theirs")
        yield cluster


def order(url: str, name: str, **environment: Any) -> LaunchRequest:
    config = {
        "environment": environment,
        "fleet": {**SMALL, "fragment_length": 16},
        "policy": {"hidden_sizes": [8]},
    }
    return LaunchRequest(
        actor_name=name,
        incarnation=f"1-{name}",
        run=name,
        config=run_config.to_builtins(run_config.parse(config)),
        platform_url=url,
        token="t",
    )


def environment_of(pid: int | None) -> dict[str, str]:
    """Return the environment variables of a process."""
    content = Path("/proc", str(pid), "environ").read_text()
    return dict(line.split("=", 1) for line in content.split("\0") if "=" in line)


def test_nodes_without_our_code_refuse_the_manager_and_name_the_missing_packages(
    nodes: RayNodes,
) -> None:
    cluster = RayCluster(nodes.address, namespace="bare")

    with pytest.raises(LaunchRefused, match="No module named 'rollouts'"):
        cluster.launch(order("http://127.0.0.1:9", "bare"))


def test_the_pinned_runtime_env_contains_the_code_and_outlives_its_launcher(
    nodes: RayNodes, tmp_path: Path
) -> None:
    pinned = {"py_modules": OUR_PACKAGES, "env_vars": {"PINNED": "by the administrator"}}
    cluster = RayCluster(nodes.address, namespace="sent", runtime_env=pinned)
    platform = SmallPlatform()
    platform.publish(0)
    with served(platform) as url:
        cluster.launch(order(url, "sent"))
        try:
            eventually(lambda: len(platform.fragments) > 20)
            eventually(lambda: platform.reports[-1].workers[0].slots)
            [worker] = platform.reports[-1].workers
            environments = [environment_of(pid) for pid in (worker.pid, worker.slots[0].pid)]

            [manager] = processes(nodes, "ray::ManagerActor")
            os.kill(manager, signal.SIGKILL)
            eventually(lambda: platform.reports[-1].workers[0].incarnation != worker.incarnation)
            eventually(lambda: platform.reports[-1].workers[0].env_steps > 0)
        finally:
            cluster.kill("sent")

    assert [environments.get("PINNED") for environments in environments] == [
        "by the administrator"
    ] * 2
    assert "runtime_resources" in environments[1]["PYTHONPATH"]
    assert cluster.actor_state("sent") is ActorState.MISSING


def test_nothing_of_a_run_reaches_the_runtime_env(nodes: RayNodes) -> None:
    sneaky = {"runtime_env": {"env_vars": {"SNEAKED": "1"}}, "env_vars": {"SNEAKED": "1"}}
    cluster = RayCluster(
        nodes.address, namespace="sneaky", runtime_env={"py_modules": OUR_PACKAGES}
    )
    platform = SmallPlatform()
    platform.publish(0)
    with served(platform) as url:
        cluster.launch(order(url, "sneaky", kwargs=sneaky))
        try:
            # CartPole rejects such arguments: its slots report the error.
            eventually(lambda: any(s.error for w in workers(platform) for s in w.slots))
            [worker] = workers(platform)
            variables = environment_of(worker.pid)
        finally:
            cluster.kill("sneaky")

    assert "SNEAKED" not in variables


def workers(platform: SmallPlatform) -> list[Any]:
    return list(platform.reports[-1].workers) if platform.reports else []


def processes(nodes: RayNodes, title: str) -> list[int]:
    return [
        process.pid
        for node in (nodes.head, *nodes.nodes.values())
        for process in psutil.Process(node.child.pid).children(recursive=True)
        if " ".join(process.cmdline()).startswith(title)
    ]
