"""Fleets on real clusters, with a minimal platform."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from rolldeck.operator_requests import MachineCommand
from rolldeck.wire import FleetReport, WorkerReport
from rollouts.fleet.process.settings import FleetSettings
from rollouts.fleet.ray_internals import disconnect_from_ray
from runs.config.rules import run_config
from tests import waiting
from tests.ray_nodes import Node

sys.path.append(str(Path(__file__).parents[1] / "unit" / "rollouts" / "fleet"))

from small_platform import SmallPlatform, served

NAMESPACE = "tests"
SMALL = {"envs_per_worker": 2, "envs_per_process": 2, "inference_batch_size": 2}


def eventually(condition: Callable[[], object], seconds: float = 180.0) -> float:
    """Like :func:`tests.waiting.eventually`, with longer intervals and limits for Ray."""
    return waiting.eventually(condition, seconds, interval_seconds=0.05)


@contextmanager
def connected(address: str, **options: Any) -> Iterator[None]:
    """Make this process a driver of the cluster."""
    import ray

    ray.init(
        address=address,
        namespace=NAMESPACE,
        log_to_driver=False,
        configure_logging=False,
        **options,
    )
    try:
        yield
    finally:
        disconnect_from_ray()


@dataclass
class SmallFleet:
    """A launched fleet and its platform."""

    name: str
    platform: SmallPlatform
    actor: Any

    @property
    def report(self) -> FleetReport:
        return self.platform.reports[-1]

    @property
    def reason(self) -> str:
        return self.platform.reports[-1].reason if self.platform.reports else ""

    @property
    def workers(self) -> list[WorkerReport]:
        return self.platform.reports[-1].workers if self.platform.reports else []

    def manager_pid(self) -> int:
        import ray

        return int(ray.get(self.actor.pid.remote(), timeout=60))

    def runs(self) -> bool:
        """Whether every worker is running and has stepped environments."""
        return bool(self.workers) and all(
            worker.state == "running" and worker.env_steps > 0 for worker in self.workers
        )


@contextmanager
def small_fleet(
    address: str,
    spool: Path,
    *,
    name: str = "manager",
    machines: Sequence[MachineCommand] = (),
    policy: Mapping[str, Any] | None = None,
    weights: Mapping[str, Any] | None = None,
    **fleet: Any,
) -> Iterator[SmallFleet]:
    """Launch a fleet with weights; end it at the end of the block.

    Args:
        address: Address of the cluster.
        spool: Spool directory of the workers.
        name: Name of the run and its manager.
        machines: Machines cordoned at launch.
        policy: Policy of the run, a small MLP by default.
        weights: Its tensors by name.
        fleet: Changes to the default configuration.
    """
    from rollouts.fleet.manager.actors import find, kill, launch

    config = {
        "fleet": {**SMALL, "fragment_length": 16, **fleet},
        "policy": policy or {"hidden_sizes": [8]},
    }
    platform = SmallPlatform()
    platform.publish(0, weights=weights)
    platform.machines = list(machines)
    with served(platform) as url:
        settings = FleetSettings(
            platform_url=url,
            token="t",
            run=name,
            run_config=run_config.to_builtins(run_config.parse(config)),
            incarnation=f"1-{name}",
            spool_root=str(spool),
            closed_nodes=[machine.node for machine in machines],
        )
        launch(address=address, namespace=NAMESPACE, name=name, settings=settings)
        try:
            actor = find(namespace=NAMESPACE, name=name)
            yield SmallFleet(name=name, platform=platform, actor=actor)
        finally:
            kill(namespace=NAMESPACE, name=name)


def runs_on(node: Node, pid: int | None) -> bool:
    """Return whether a process belongs to a node."""
    children = psutil.Process(node.child.pid).children(recursive=True)
    return pid in {process.pid for process in children}


def slots_with_gaps(fleet: SmallFleet) -> list[str]:
    """Return the slots with missing fragments before a stored one."""
    numbers: dict[str, list[int]] = {}
    for slot, number in fleet.platform.fragments:
        numbers.setdefault(slot, []).append(number)
    return [
        slot
        for slot, slot_numbers in numbers.items()
        if sorted(slot_numbers) != list(range(len(slot_numbers)))
    ]
