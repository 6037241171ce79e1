"""The wheels run on Python 3.13, in a root of Debian 13 that `make test-debian` makes.

The platform and its fleets may have different minor versions of Python: what crosses between them
is JSON or msgpack.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from django.conf import settings

from rolldeck import wire
from rolldeck.operator_requests import LogRequest
from rollouts.control.rules import ActorState
from rollouts.control.services.ray_cluster import ClusterUnreachable, RayCluster
from rollouts.fleet.gateway.messages import Answer, Call, Probe
from rollouts.fleet.probe.messages import Outcome, ProbeRequest
from rollouts.fleet.process.settings import FleetSettings, WorkerSettings
from runs.config.rules import run_config
from tests import processes
from tests.contract.test_cluster import order, until
from tests.server import ADMIN_TOKEN, FOREIGN, ROOT, free_port, wait_until
from tests.system.test_wheels import OFFER, REGISTRATION, batch, push, running
from tests.waiting import within
from tests.wheels import Installation

pytestmark = [pytest.mark.system, pytest.mark.debian]

DEBIAN: Final = ROOT / ".cache/debian-13"
USER: Final = "deck"
# A mount namespace of its own, so that nothing stays mounted.
ENTER: Final = (
    'mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && '
    f'exec chroot --userspec={USER}:{USER} "$0" env HOME=/home/{USER} "$@"'
)
FLEET: Final = FleetSettings(
    platform_url="http://127.0.0.1:1",
    token="t",
    run="pole",
    run_config=run_config.to_builtins(run_config.parse({})),
    incarnation="1-a",
)
NUMBERS: Final = wire.Array(dtype="float32", shape=(2,), data=b"\x00\x00\x80\x3f" * 2)
MESSAGES: Final[dict[str, msgspec.Struct]] = {
    "a call of the platform to the cluster": Call(
        operation="launch", name="rolldeck-pole-1", settings=FLEET, runtime_env={"env_vars": {}}
    ),
    "its answer": Answer(value=[{"node": "a", "cpus": 2.0, "alive": True}]),
    "a probe": Probe(request=ProbeRequest(kind="environment", spec="gym:CartPole-v1"), seconds=5),
    "its outcome": Outcome(observation="Box(4)", seconds=0.25),
    "the settings of a worker": WorkerSettings(fleet=FLEET, index=1, incarnation="2-b"),
    "commands to a fleet": wire.FleetControl(
        fingerprint="f",
        desired="running",
        epoch=1,
        policy_step=2,
        admission_remaining=3,
        log_requests=[LogRequest(id="l", worker=None, slot=None, lines=10)],
    ),
    "a report of a fleet": wire.FleetReport(
        incarnation="1-a",
        sequence=2**40,
        state="running",
        workers=[wire.WorkerReport(index=0, incarnation="2-b", state="running", cpu_percent=12.5)],
    ),
    "a fragment": wire.Fragment(
        slot="w0-0@2-b",
        number=0,
        contiguous=False,
        environment="gym:CartPole-v1",
        worker="w0",
        epoch=1,
        version_min=-1,
        version_max=2,
        steps=2,
        episode_ids=["e"],
        arrays={"reward": NUMBERS},
    ),
    "a group": wire.Group(
        lengths=NUMBERS, tokens=NUMBERS, masks=NUMBERS, scores=NUMBERS, json={"messages": b"[[]]"}
    ),
    "the manifest of a version": wire.WeightsManifest(
        epoch=1,
        step=-1,
        sha256="0" * 64,
        size_bytes=8,
        tensors=[wire.TensorSpec(name="w", dtype="BF16", shape=[2, 3])],
    ),
}
"""What crosses between the platform, the cluster, its workers and the clients."""


@dataclass(frozen=True)
class InDebian(Installation):
    """A virtual environment in the root of Debian, which its user made."""

    def command(self, program: str, *words: str) -> list[str]:
        inside = "/" + str((self.folder / "bin" / program).relative_to(DEBIAN))
        return in_debian(inside, *words)

    def environment(self, **more: str) -> dict[str, str]:
        foreign = (*FOREIGN, "PYTHON", "VIRTUAL_ENV", "XDG_", "TMPDIR")
        own = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
        return own | more

    def install(self, requirement: str, *more: str, wheels: Path) -> None:
        copied = DEBIAN / "home" / USER / "wheels"
        shutil.rmtree(copied, ignore_errors=True)
        shutil.copytree(wheels, copied)
        copied.chmod(0o755)
        super().install(requirement, *more, wheels=Path("/home", USER, "wheels"))


def in_debian(*words: str) -> list[str]:
    """Return the command that runs a program in the root, as its user."""
    return ["unshare", "--mount", "sh", "-c", ENTER, str(DEBIAN), *words]


@contextmanager
def installation(name: str, *options: str) -> Iterator[InDebian]:
    """Make a virtual environment, and remove it with its data at the end."""
    folder = DEBIAN / "home" / USER / name
    shutil.rmtree(folder, ignore_errors=True)
    inside = f"/home/{USER}/{name}"
    subprocess.run(in_debian("python3", "-m", "venv", *options, inside), check=True)
    try:
        yield InDebian(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def buffer(wheels: Path) -> Iterator[InDebian]:
    """The platform without Ray and torch."""
    with installation("buffer") as made:
        made.install("rolldeck[buffer]", wheels=wheels)
        yield made


@pytest.fixture(scope="module")
def server(wheels: Path) -> Iterator[InDebian]:
    """The whole platform, with Debian's torch, which is the oldest supported release."""
    with installation("server", "--system-site-packages") as made:
        made.install("rolldeck[server]", wheels=wheels)
        yield made


def test_the_versions_are_those_of_the_support_matrix(server: InDebian) -> None:
    shown = server.python("import sys, torch; print(*sys.version_info[:2], torch.__version__)")

    assert shown.startswith("3 13 2.6.0")


def test_the_buffer_takes_a_push_and_serves_a_batch(buffer: InDebian) -> None:
    variables = {
        "ROLLDECK_VAR": f"/home/{USER}/buffer/data",
        "ROLLDECK_BOOTSTRAP_TOKEN": ADMIN_TOKEN,
    }
    with running(buffer, "--only", "buffer", port=free_port(), **variables) as client:
        client.post("/register", json=REGISTRATION).raise_for_status()
        client.get("/batch").raise_for_status()  # the first request starts the run
        client.post("/register-env", json=OFFER).raise_for_status()
        push(client, 10)
        served = wait_until(lambda: batch(client), seconds=60, what="a batch")
        listed = buffer.rolldeck(
            *("run", "ls", "--json"),
            ROLLDECK_URL=str(client.base_url),
            ROLLDECK_TOKEN=ADMIN_TOKEN,
        )

    assert served[0]["tokens"][0][0] == 10
    assert listed.returncode == 0, listed.stderr
    assert len(msgspec.json.decode(listed.stdout)) == 1


def test_the_demo_learns(server: InDebian) -> None:
    data = f"/home/{USER}/server/data"

    shown = server.rolldeck("demo", "--exit", ROLLDECK_PORT=str(free_port()), ROLLDECK_VAR=data)

    assert shown.returncode == 0, shown.stdout[-3000:] + shown.stderr[-1000:]
    assert "Learnt " in shown.stdout


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_of_this_python_is_read_by_the_other(buffer: InDebian, name: str) -> None:
    assert sys.version_info[:2] != (3, 13)
    message = MESSAGES[name]
    type_ = type(message)
    read = (
        "import sys, msgspec, rolldeck_server; from importlib import import_module;"
        "rolldeck_server.add_source();"
        f"type_ = getattr(import_module({type_.__module__!r}), {type_.__qualname__!r});"
        "codec = getattr(msgspec, sys.argv[1]);"
        "message = codec.decode(bytes.fromhex(sys.argv[2]), type=type_);"
        "print(codec.encode(message).hex())"
    )

    for codec in (msgspec.json, msgspec.msgpack):
        encoded = codec.encode(message)
        words = (codec.__name__.rpartition(".")[2], encoded.hex())
        done = processes.run(
            buffer.command("python", "-c", read, *words),
            capture_output=True,
            text=True,
            env=buffer.environment(),
        )
        assert done.returncode == 0, done.stderr
        answer = bytes.fromhex(done.stdout.strip())
        assert codec.decode(answer, type=type_) == message


def test_a_job_worker_of_this_python_launches_a_fleet_of_the_other(server: InDebian) -> None:
    port = free_port()
    address = f"127.0.0.1:{port}"
    words = ("--head", f"--port={port}", "--num-cpus=2", "--node-ip-address=127.0.0.1")
    words += ("--include-dashboard=false", "--disable-usage-stats")
    head = processes.start(
        server.command("python", "-m", "rolldeck_server.cluster", "head", address, "--", *words),
        env=server.environment(
            RAY_AUTH_MODE="token",
            RAY_AUTH_TOKEN=settings.RAY_AUTH_TOKEN,
            RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER="0",
        ),
    )
    cluster = RayCluster(address)
    given = order()

    def nodes() -> list[dict[str, Any]]:
        try:
            return cluster.nodes()
        except ClusterUnreachable:
            return []

    try:
        assert within(90, lambda: [node["cpus"] for node in nodes()] == [2.0])
        cluster.launch(given)
        lived = until(ActorState.ALIVE, lambda: cluster.actor_state(given.actor_name))
        listed = cluster.managers(platform_url=given.platform_url)
        cluster.kill(given.actor_name)
        ended = until(ActorState.MISSING, lambda: cluster.actor_state(given.actor_name))
    finally:
        head.terminate()
        head.wait(30)

    assert (lived, listed, ended) == (True, [given.actor_name], True)
