"""Runs that are driven into a known state, on a real server with real fleets."""

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import numpy as np

from rolldeck.errors import RolldeckError
from rolldeck.trainer import Trainer
from tests.buffer_factories import ENVIRONMENT as STOCK_ENVIRONMENT
from tests.buffer_factories import REGISTRATION, group
from tests.diagnosis_cases.language_cases import inference_down, inference_failed
from tests.server import ADMIN_TOKEN, Server

ENVIRONMENT: Final = "module:limited_parts:Paced"
POLICY: Final = "module:limited_parts:SlowPolicy"
Case = Callable[[Server, str, Path], Any]


def launch(server: Server, name: str, **config: Any) -> None:
    """Start a fleet of small workers."""
    fleet = {
        "num_workers": 2,
        "envs_per_worker": 2,
        "envs_in_worker": True,
        "inference_batch_size": 2,
        "fragment_length": 16,
        "num_cpus_per_worker": 0.5,
    }
    full = {
        **config,
        "environment": {"spec": ENVIRONMENT, **config.get("environment", {})},
        "fleet": fleet | config.get("fleet", {}),
        "policy": {"kind": POLICY, **config.get("policy", {})},
        "buffer": {"batch_size": 8, **config.get("buffer", {})},
    }
    server.post("/api/v1/runs", {"name": name, "kind": "fleet", "config": full, "start": True})


def weights(step: int) -> dict[str, Any]:
    """Return weights of the policy; those of step 0 are zeros."""
    value = 0.0 if step == 0 else 0.01
    shapes = {
        "policy_head.weight": (2, 4),
        "policy_head.bias": (2,),
        "value_head.weight": (1, 4),
        "value_head.bias": (1,),
    }
    return {name: np.full(shape, value, np.float32) for name, shape in shapes.items()}


class Training(threading.Thread):
    """Trainer with a fixed duration of a train step."""

    def __init__(
        self,
        server: Server,
        run: str,
        *,
        seconds: float,
        publishes: bool = True,
        acks_first: bool = False,
        steps: int = -1,
    ) -> None:
        super().__init__(daemon=True)
        self.trainer = Trainer(server.url, run, ADMIN_TOKEN)
        self.seconds, self.publishes, self.steps = seconds, publishes, steps
        self.acks_first = acks_first
        self.stopping = threading.Event()

    def run(self) -> None:
        trained = 0
        with self.trainer:
            self.trainer.register()
            if not self.acks_first:
                self.trainer.publish_weights(weights(0), step=0)
            while not self.stopping.is_set() and trained != self.steps:
                batch = self.trainer.next_batch(wait_seconds=1)
                if batch is None:
                    continue
                if self.acks_first:
                    self.trainer.ack(batch)
                self.stopping.wait(self.seconds)
                trained += 1
                try:
                    if self.publishes:
                        self.trainer.publish_weights(weights(trained), step=trained)
                    if not self.acks_first:
                        self.trainer.ack(batch)
                except RolldeckError:
                    return


@contextmanager
def training(server: Server, run: str, **options: Any) -> Iterator[None]:
    """Train on a run until the end of the block."""
    thread = Training(server, run, **options)
    thread.start()
    try:
        yield
    finally:
        thread.stopping.set()
        thread.join(30)


@contextmanager
def repeated(action: Callable[[], object], *, seconds: float) -> Iterator[None]:
    """Repeat an action in a thread until the end of the block."""
    stopping = threading.Event()

    def work() -> None:
        while not stopping.wait(seconds):
            action()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join(30)


@contextmanager
def slow_environments(server: Server, run: str, _: Path) -> Iterator[None]:
    launch(server, run, environment={"kwargs": {"seconds": 0.03}}, buffer={"max_staleness": 50})
    with training(server, run, seconds=0.05):
        yield


@contextmanager
def slow_policy(server: Server, run: str, _: Path) -> Iterator[None]:
    launch(server, run, policy={"kwargs": {"forward": 0.05}}, buffer={"max_staleness": 50})
    with training(server, run, seconds=0.05):
        yield


@contextmanager
def slow_trainer(server: Server, run: str, _: Path) -> Iterator[None]:
    launch(server, run, environment={"kwargs": {"seconds": 0.01}}, buffer={"max_staleness": 4})
    with training(server, run, seconds=2.0):
        yield


@contextmanager
def no_trainer_yet(server: Server, run: str, _: Path) -> Iterator[None]:
    launch(server, run)
    yield


@contextmanager
def trainer_left(server: Server, run: str, _: Path) -> Iterator[None]:
    launch(server, run, environment={"kwargs": {"seconds": 0.01}})
    with training(server, run, seconds=0.05, steps=5):
        yield


@contextmanager
def trainer_holds_a_batch(server: Server, run: str, _: Path) -> Iterator[None]:
    launch(server, run, environment={"kwargs": {"seconds": 0.01}}, buffer={"lease_seconds": 3600})
    with training(server, run, seconds=3600.0):
        yield


@contextmanager
def staleness_limit(server: Server, run: str, _: Path) -> Iterator[None]:
    launch(server, run, environment={"kwargs": {"seconds": 0.02}}, buffer={"max_staleness": 0})
    with training(server, run, seconds=1.0):
        yield


@contextmanager
def weights_not_published(server: Server, run: str, _: Path) -> Iterator[None]:
    launch(server, run, environment={"kwargs": {"seconds": 0.01}}, buffer={"max_staleness": 0})
    with training(server, run, seconds=0.05, publishes=False):
        yield


@contextmanager
def weights_stuck(server: Server, run: str, _: Path) -> Iterator[None]:
    launch(
        server,
        run,
        environment={"kwargs": {"seconds": 0.02}},
        policy={"kwargs": {"load": 900.0}},
        fleet={"weights_timeout_seconds": 900},
        buffer={"max_staleness": 1000},
    )
    with training(server, run, seconds=0.5):
        yield


@contextmanager
def crash_loop(server: Server, run: str, _: Path) -> Iterator[None]:
    launch(
        server,
        run,
        environment={"kwargs": {"seconds": 0.01, "exits_at": 60}},
        buffer={"max_staleness": 50},
    )
    with training(server, run, seconds=0.05):
        yield


@contextmanager
def one_slow_worker(server: Server, run: str, folder: Path) -> Iterator[None]:
    kwargs = {"seconds": 0.01, "slow_lock": str(folder / run)}
    launch(
        server,
        run,
        environment={"kwargs": kwargs},
        fleet={"num_workers": 3},
        buffer={"max_staleness": 50},
    )
    with training(server, run, seconds=0.01):
        yield


@contextmanager
def paused(server: Server, run: str, _: Path) -> Iterator[None]:
    launch(server, run, environment={"kwargs": {"seconds": 0.02}})
    with training(server, run, seconds=0.05):
        time.sleep(30)
        server.post(f"/api/v1/runs/{run}/pause", {"reason": "for a recording"})
        yield


def _outside(server: Server, run: str) -> str:
    body = {"name": run, "kind": "outside", "start": True}
    server.post("/api/v1/runs", body)
    root = f"/atropos/{run}"
    server.post(f"{root}/register", REGISTRATION | {"num_steps": 1_000_000})
    return root


@contextmanager
def pushes_refused(server: Server, run: str, _: Path) -> Iterator[None]:
    root = _outside(server, run)
    server.get(f"{root}/batch")  # environments register once a trainer has requested a batch
    registered = server.post(f"{root}/register-env", STOCK_ENVIRONMENT)
    broken = {**group(sequences=4), "scores": [1.0], "env_id": registered["env_id"]}
    with (
        _client(server) as http,
        repeated(lambda: http.post(f"{root}/scored_data", json=broken), seconds=1.0),
    ):
        yield


@contextmanager
def queue_full(server: Server, run: str, _: Path) -> Iterator[None]:
    """Drive a trainer that acknowledges each batch before it trains, below the push rate."""
    root = _outside(server, run)
    with ExitStack() as stack:
        http = stack.enter_context(_client(server))
        stack.enter_context(
            repeated(lambda: http.post(f"{root}/scored_data", json=group(sequences=4)), seconds=0.5)
        )
        stack.enter_context(training(server, run, seconds=5.0, publishes=False, acks_first=True))
        yield


@contextmanager
def stale_data(server: Server, run: str, _: Path) -> Iterator[None]:
    """Push three of four groups with a version that is too old."""
    root = _outside(server, run)
    server.http.patch(f"/api/v1/runs/{run}", json={"max_staleness": 1}).raise_for_status()
    numbers = itertools.count()

    def push() -> None:
        newest = server.get(f"/api/v1/runs/{run}")["policy_step"]
        behind = 5 if next(numbers) % 4 else 0
        fields = {"policy_step": newest - behind} if newest >= behind else {}
        http.post(f"{root}/scored_data", json=group(sequences=4, **fields))

    with ExitStack() as stack:
        http = stack.enter_context(_client(server))
        stack.enter_context(repeated(push, seconds=0.3))
        stack.enter_context(training(server, run, seconds=0.1))
        yield


@contextmanager
def slow_weights(server: Server, run: str, _: Path) -> Iterator[None]:
    launch(
        server,
        run,
        environment={"kwargs": {"seconds": 0.005}},
        policy={"kwargs": {"load": 2.0}},
        buffer={"max_staleness": 1},
    )
    with training(server, run, seconds=0.3):
        yield


@contextmanager
def slow_outside_environments(server: Server, run: str, _: Path) -> Iterator[None]:
    root = _outside(server, run)
    with ExitStack() as stack:
        http, consumer = stack.enter_context(_client(server)), stack.enter_context(_client(server))
        consumer.get(f"{root}/batch")
        stack.enter_context(
            repeated(lambda: http.post(f"{root}/scored_data", json=group(sequences=4)), seconds=2.0)
        )
        stack.enter_context(repeated(lambda: consumer.get(f"{root}/batch"), seconds=0.3))
        yield


def _client(server: Server) -> httpx.Client:
    return httpx.Client(
        base_url=server.url, headers={"Authorization": f"Bearer {ADMIN_TOKEN}"}, timeout=30
    )


CASES: Final[dict[str, tuple[Case, str]]] = {
    "slow-environments": (slow_environments, "producers_slow"),
    "slow-policy": (slow_policy, "producers_slow"),
    "slow-trainer": (slow_trainer, "trainer_slow"),
    "no-trainer-yet": (no_trainer_yet, "training_stalled"),
    "trainer-left": (trainer_left, "training_stalled"),
    "trainer-holds-a-batch": (trainer_holds_a_batch, "training_stalled"),
    "stale-data": (stale_data, "stale_drops"),
    "slow-weights": (slow_weights, "weights_late"),
    "staleness-limit": (staleness_limit, "staleness_limit"),
    "weights-not-published": (weights_not_published, "weights_late"),
    "weights-stuck": (weights_stuck, "weights_late"),
    "crash-loop": (crash_loop, "workers_down"),
    "inference-down": (inference_down, "workers_down"),
    "inference-failed": (inference_failed, "workers_down"),
    "one-slow-worker": (one_slow_worker, "producers_slow"),
    "paused": (paused, "not_running"),
    "pushes-refused": (pushes_refused, "pushes_refused"),
    "queue-full": (queue_full, "trainer_slow"),
    "slow-outside-environments": (slow_outside_environments, "producers_slow"),
}
"""Driver and expected kind of diagnosis of each case."""
