"""Start a Ray cluster of several nodes on this machine, with nodes that can be killed."""

import json
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil

from config.embedded import parts
from config.embedded.children import Child, Command
from rollouts.fleet import ray_internals

ROOT = Path(__file__).resolve().parents[1]
OUR_CODE = (ROOT, ROOT / "platform", ROOT / "client")
# Ray treats every loopback address except the first as that of a machine.
ADDRESS = "127.0.0.2"


@dataclass(frozen=True, kw_only=True)
class Node:
    """One raylet with its workers, which stands for a machine."""

    name: str
    child: Child

    def kill_raylet(self) -> None:
        """Kill the raylet with SIGKILL: the cluster treats the machine as lost."""
        for process in psutil.Process(self.child.pid).children(recursive=True):
            if process.name() == "raylet":
                os.kill(process.pid, signal.SIGKILL)
                return
        raise AssertionError(f"node {self.name} has no raylet")


@dataclass(kw_only=True)
class RayNodes:
    """A head without CPUs, and nodes with CPUs."""

    address: str
    folder: Path
    environment: Mapping[str, str]
    nodes: dict[str, Node] = field(default_factory=dict)
    """Nodes with CPUs, by name."""
    children: list[Child] = field(default_factory=list)
    """Processes of the head, then of each node."""

    @property
    def head(self) -> Node:
        """The node of the cluster's head."""
        return Node(name="head", child=self.children[0])

    def add(
        self, name: str, *, cpus: float = 2, temp: Path | None = None, **resources: float
    ) -> Node:
        """Start a node and wait until it has joined; `temp` is its temporary folder."""
        words = [f"--address={self.address}", f"--num-cpus={cpus:g}"]
        words += [f"--resources={json.dumps(resources)}", "--num-gpus=0", "--disable-usage-stats"]
        words += [f"--node-ip-address={ADDRESS}", "--include-log-monitor=false"]
        words += ["--min-worker-port=0", "--max-worker-port=0"]
        command = Command(
            name=f"node-{name}",
            argv=(*ray_internals.START, *words),
            env={**self.environment, **({"TMPDIR": str(temp)} if temp else {})},
            death_signal=signal.SIGTERM,
            stop_seconds=3.0,
        )
        node = Node(name=name, child=self.start(command))
        self.nodes[name] = node
        return node

    def start(self, command: Command) -> Child:
        """Start a child and wait until it reports that Ray runs."""
        child = Child(command, log_folder=self.folder)
        self.children.append(child)
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline and child.exit_code is None:
            if ray_internals.STARTED in child.logged():
                return child
            time.sleep(0.05)
        raise RuntimeError(f"Ray did not start:\n{child.logged()}")


@contextmanager
def ray_nodes(*, code: Sequence[Path] = OUR_CODE) -> Iterator[RayNodes]:
    """Yield a cluster whose head offers no CPU; this process may connect to it by its address.

    Args:
        code: PYTHONPATH of its workers.
    """
    temp_dir = Path(tempfile.mkdtemp(prefix="rdnodes"))  # sockets need short paths
    inherited = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    paths = os.pathsep.join(str(path) for path in code)
    address = f"{ADDRESS}:{parts.free_ray_port()}"
    # A cluster of several machines, which the settings of the embedded one forbid.
    several = dict.fromkeys(ray_internals.ON_LOOPBACK, "1")
    environment = {**inherited, **several, "PYTHONPATH": paths}
    head = parts.ray_head_command(
        address=address, cpus=0, temp_folder=temp_dir, environment=environment
    )
    cluster = RayNodes(address=address, folder=temp_dir, environment=environment)
    try:
        if code is OUR_CODE:
            cluster.start(head)
        else:  # a head of another origin: the gateway runs beside it
            gateway, words = head.argv[: head.argv.index("--")], head.argv[head.argv.index("--") :]
            plain = (*ray_internals.START, *words[1:])
            cluster.start(replace(head, argv=plain))
            own = {**environment, "PYTHONPATH": os.pathsep.join(map(str, OUR_CODE))}
            beside = replace(head, name="gateway", argv=gateway, env=own)
            cluster.children.append(Child(beside, log_folder=temp_dir))
        yield cluster
    finally:
        for child in reversed(cluster.children):
            child.stop()
        shutil.rmtree(temp_dir, ignore_errors=True)
