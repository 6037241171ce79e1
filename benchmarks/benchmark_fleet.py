"""Run a real fleet with Ray on a real server, consume its data, and measure the total cost."""

import contextlib
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from benchmarks import processes
from benchmarks.load import OtherProcess, other_process
from benchmarks.rolldeck_server import TOKEN, RolldeckServer
from rolldeck.trainer import Trainer

START_SECONDS: Final = 180.0
SETTLE_SECONDS: Final = 2.0
MANAGER: Final = "ray::ManagerActor"
# Substrings of command lines that identify the part of a process.
PARTS: Final = (
    ("WorkerActor", "worker"),
    ("env_process", "env_process"),
    ("config.web", "web"),
    ("postgres", "postgres"),
    ("ManagerActor", "manager"),
    ("celery", "jobs"),
    ("valkey", "valkey"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The layout of a fleet."""

    workers: int
    envs: int
    """Number of environments per worker."""
    fragment_length: int = 128
    envs_in_worker: bool = True

    def config(self) -> dict[str, Any]:
        """Return a run configuration without staleness limits and with ample room."""
        return {
            "environment": {"spec": "gymnasium:CartPole-v1"},
            "fleet": {
                "num_workers": self.workers,
                "envs_per_worker": self.envs,
                "envs_per_process": self.envs,
                "envs_in_worker": self.envs_in_worker,
                "inference_batch_size": self.envs,
                "fragment_length": self.fragment_length,
                "to_send_queue_size": max(16, 4 * self.envs),
                "device": "cpu",
            },
            "buffer": {
                # The room is batch size × (staleness + 1) fragments: minutes of a fast fleet.
                "batch_size": 8 * self.workers * self.envs,
                "max_staleness": 1024,
                "off_policy_tolerance": 1024,
            },
        }


class BenchmarkFleet:
    """A fleet that samples with one version while a trainer acknowledges every batch."""

    def __init__(self, rolldeck: RolldeckServer, shape: Shape, trainer: OtherProcess) -> None:
        self._rolldeck = rolldeck
        self._shape = shape
        self._trainer = trainer
        self.run = f"fleet-{secrets.token_hex(4)}"
        self.cpu_microseconds: dict[str, float] = {}
        """Processor time per env step, by part, of the last measurement."""

    def start(self) -> None:
        """Launch the run, and return once data arrives."""
        self._call("POST", "", {"name": self.run, "config": self._shape.config(), "start": True})
        self._trainer.run(_publish, self._rolldeck.url, self.run)
        self._trainer.start(_consume, self._rolldeck.url, self.run)
        required = 4 * self._shape.workers * self._shape.envs
        _wait(lambda: self._accepted()[0] >= required, "the first fragments")

    def pause(self) -> None:
        """Pause sampling, and return once nothing is in transit."""
        self._call("POST", f"/{self.run}/pause", {})
        _wait(lambda: self._observed() == "paused", "a pause")
        time.sleep(SETTLE_SECONDS)

    def resume(self) -> None:
        """Resume sampling, and return once data arrives at its usual pace."""
        self._call("POST", f"/{self.run}/resume", {})
        before = self._accepted()[0]
        _wait(lambda: self._accepted()[0] > before, "data after a pause")
        time.sleep(SETTLE_SECONDS)

    def rate(self, seconds: float) -> float:
        """Return the env steps per second made durable on the platform over `seconds`."""
        before, used = self._accepted(), self._cpu_seconds()
        time.sleep(seconds)
        after, used_then = self._accepted(), self._cpu_seconds()
        steps = (after[0] - before[0]) * self._shape.fragment_length
        self.cpu_microseconds = {
            part: round(1e6 * (used_then[part] - used.get(part, 0.0)) / max(1, steps), 2)
            for part in used_then
        }
        return steps / (after[1] - before[1])

    def served(self) -> int:
        """Return the number of fragments acknowledged by trainers."""
        return int(self._call("GET", f"/{self.run}/ledger")["fragments"]["served"])

    def workers(self) -> list[dict[str, Any]]:
        """Return the fleet's workers with their slots, from its last report."""
        workers: list[dict[str, Any]] = self._call("GET", f"/{self.run}/fleet")["workers"]
        return workers

    def _accepted(self) -> tuple[int, float]:
        ledger = self._call("GET", f"/{self.run}/ledger")["fragments"]
        return int(ledger["accepted"]), time.monotonic()

    def _observed(self) -> str:
        return str(self._call("GET", f"/{self.run}/fleet")["observed"])

    def _cpu_seconds(self) -> dict[str, float]:
        lines = processes.descendants(self._rolldeck.pid)
        by_part: dict[str, list[int]] = {}
        for pid, line in lines.items():
            part = next((name for mark, name in PARTS if mark in line), "ray")
            by_part.setdefault(part, []).append(pid)
        cpu_seconds = {part: processes.cpu_seconds(pids) for part, pids in by_part.items()}
        return cpu_seconds | {"trainer": self._trainer.cpu_seconds()}

    def _call(self, method: str, path: str, content: Any = None) -> Any:
        return self._rolldeck.call(method, f"/api/v1/runs{path}", content, is_admin=True)


@contextlib.contextmanager
def fleet_on(rolldeck: RolldeckServer, shape: Shape) -> Iterator[BenchmarkFleet]:
    """Run a fleet until the block ends, then kill its run, and wait for the end of its manager."""
    with other_process() as trainer:
        fleet = BenchmarkFleet(rolldeck, shape, trainer)
        try:
            fleet.start()
            yield fleet
        finally:
            path = f"/api/v1/runs/{fleet.run}/kill"
            rolldeck.call("POST", path, {"reason": "measured"}, is_admin=True)
            _wait(lambda: not _has_manager(rolldeck), "the end of the fleet")


def _has_manager(rolldeck: RolldeckServer) -> bool:
    return any(MANAGER in line for line in processes.descendants(rolldeck.pid).values())


def _publish(url: str, run: str) -> None:
    """Publish version 0 with the weights of a new policy."""
    from rollouts.fleet.policies.networks import MlpPolicy

    with Trainer(url, run, TOKEN) as trainer:
        trainer.register()
        state = MlpPolicy(4, 2, [64, 64]).state_dict()
        trainer.publish_weights({name: value.numpy() for name, value in state.items()}, step=0)


def _consume(url: str, run: str) -> int:
    """Lease and acknowledge batches until a run has ended; return their number."""
    with Trainer(url, run, TOKEN) as trainer:
        trainer.register(resume=True)
        return sum(1 for _ in trainer.batches(wait_seconds=10.0))


def _wait(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise processes.NotStarted(f"{what}: not within {START_SECONDS:.0f} s")
        time.sleep(0.2)
