"""A killed head of a cluster is started again, and takes launches and nodes again."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from django.conf import settings

from config.embedded import parts
from config.embedded.children import Child, Command
from rollouts.control.rules import ActorState
from rollouts.control.services.ray_cluster import ClusterUnreachable, RayCluster
from rollouts.fleet import ray_internals
from rollouts.fleet.gateway import node
from rollouts.fleet.gateway.messages import gateway_of
from tests.contract.test_cluster import order
from tests.ray_head import ROOT
from tests.waiting import within

pytestmark = [pytest.mark.ray, pytest.mark.full("starts and kills heads for a minute")]

ADDRESS = "127.0.0.2"
RECOVERS_WITHIN_SECONDS = 30.0


class Machines:
    """A head and a node, each started again when it ends, as containers are."""

    def __init__(self, folder: Path) -> None:
        self.address = f"{ADDRESS}:{parts.free_ray_port()}"
        paths = os.pathsep.join(str(path) for path in (ROOT, ROOT / "platform", ROOT / "client"))
        several = dict.fromkeys(ray_internals.ON_LOOPBACK, "1")
        environment = {**os.environ, **several, "PYTHONPATH": paths}
        words = ["--num-cpus=2", "--num-gpus=0", f"--node-ip-address={ADDRESS}"]
        words += ["--include-log-monitor=false", "--min-worker-port=0", "--max-worker-port=0"]
        module = "rollouts.fleet.gateway.node"
        self._folder = folder
        self._commands = {
            "head": parts.ray_head_command(
                address=self.address, cpus=0, temp_folder=folder / "r", environment=environment
            ),
            "node": Command(
                name="node",
                argv=(sys.executable, "-P", "-m", module, self.address, "--", *words),
                env=environment,
                death_signal=signal.SIGTERM,
                stop_seconds=3.0,
            ),
        }
        self.children: dict[str, Child] = {}
        self.keep_running()

    def keep_running(self) -> None:
        for name, command in self._commands.items():
            if name not in self.children or self.children[name].exit_code is not None:
                self.children[name] = Child(command, log_folder=self._folder)

    def kill_head(self) -> None:
        """Kill Ray's server of the cluster with SIGKILL."""
        [server] = [
            process
            for process in psutil.Process(self.children["head"].pid).children(recursive=True)
            if process.name() == "gcs_server"
        ]
        server.kill()
        assert within(10, lambda: self.children["head"].exit_code is not None)

    def until(self, holds: Callable[[], bool], *, seconds: float) -> float:
        """Return the seconds until `holds`, while ended processes are started again."""
        began = time.monotonic()

        def does_hold() -> bool:
            self.keep_running()
            try:
                return holds()
            except ClusterUnreachable:
                return False

        assert within(seconds, does_hold), {
            name: child.last_lines(40) for name, child in self.children.items()
        }
        return time.monotonic() - began

    def stop(self) -> None:
        for child in reversed(self.children.values()):
            child.stop()


@pytest.fixture
def machines() -> Iterator[Machines]:
    folder = Path(tempfile.mkdtemp(prefix="rdgate"))  # sockets need short paths
    started = Machines(folder)
    try:
        yield started
    finally:
        started.stop()
        shutil.rmtree(folder, ignore_errors=True)


def living_cpus(cluster: RayCluster) -> float:
    return sum(float(row["cpus"]) for row in cluster.nodes() if row["alive"])


def test_a_killed_head_and_its_nodes_take_fleets_again_within_30_seconds(
    machines: Machines,
) -> None:
    cluster = RayCluster(machines.address)
    first, second = order(), order()
    machines.until(lambda: living_cpus(cluster) == 2, seconds=60)
    cluster.launch(first)
    machines.until(lambda: cluster.actor_state(first.actor_name) is ActorState.ALIVE, seconds=40)

    machines.kill_head()

    def is_launched() -> bool:
        if cluster.actor_state(first.actor_name) is not ActorState.MISSING:
            return False
        cluster.launch(second)
        return cluster.actor_state(second.actor_name) is ActorState.ALIVE

    launched = machines.until(is_launched, seconds=RECOVERS_WITHIN_SECONDS)
    machines.until(lambda: living_cpus(cluster) == 2, seconds=RECOVERS_WITHIN_SECONDS - launched)


def test_the_gateway_needs_the_token_of_the_cluster(gateway: str) -> None:
    host, port = gateway_of(gateway)
    url = f"http://{host}:{port}"

    assert httpx.post(f"{url}/calls", json={"operation": "nodes"}).status_code == 401
    assert httpx.post(f"{url}/probes", headers={"Authorization": "Bearer x"}).status_code == 401
    own = {"Authorization": f"Bearer {settings.RAY_AUTH_TOKEN}"}
    unknown = httpx.post(f"{url}/calls", json={"operation": "shell"}, headers=own)
    assert unknown.status_code == 400
    assert "operation" in unknown.text
    assert httpx.post(f"{url}/other", headers=own).status_code == 404
    # No head runs behind this gateway.
    assert httpx.get(f"{url}/healthz").status_code == 503
    assert node.head_at(host, port) == ""


@pytest.mark.parametrize(
    ("address", "token", "message"),
    [
        ("6379", "t", "the address is '6379'; it must be host:port"),
        ("127.0.0.1:65535", "t", "it must be host:port"),
        ("127.0.0.1:6379", "", "RAY_AUTH_TOKEN is empty"),
    ],
)
def test_a_gateway_with_invalid_settings_does_not_start(
    address: str, token: str, message: str, monkeypatch: Any, capsys: Any
) -> None:
    from rollouts.fleet.gateway import command

    monkeypatch.setenv("RAY_AUTH_TOKEN", token)

    with pytest.raises(SystemExit):
        command.main([address])

    assert message in capsys.readouterr().err


def test_a_port_in_use_is_named(gateway: str, capsys: Any) -> None:
    from rollouts.fleet.gateway import command

    with pytest.raises(SystemExit):
        command.main([gateway])

    assert f"cannot listen on 127.0.0.1:{gateway_of(gateway)[1]}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "usage: python -m rolldeck_server.cluster head|node HOST:PORT"),
        (["tail"], "usage: python -m rolldeck_server.cluster head|node HOST:PORT"),
        (["head", "6379"], "the address is '6379'; it must be host:port"),
        (["node", "head:port"], "the address is 'head:port'; it must be host:port"),
    ],
)
def test_the_command_of_an_installed_package_runs_both_parts(
    tmp_path: Path, words: list[str], message: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "rolldeck_server.cluster", *words],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": f"{ROOT}/platform:{ROOT}/client"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode != 0
    assert message in done.stderr
