"""Run a rollout worker without a platform; its fragments are discarded."""

import contextlib
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rolldeck.wire import Fragment, encode
from rollouts.fleet.environments.loader import describe, make
from rollouts.fleet.policies.factory import make_module
from rollouts.fleet.policies.spaces import Space
from rollouts.fleet.process.loops import EventLog
from rollouts.fleet.process.settings import FleetSettings, WorkerSettings
from rollouts.fleet.process.spans import PipelineMonitor
from rollouts.fleet.steps.fragments import FragmentBuilder
from rollouts.fleet.steps.step_worker import StepRolloutWorker
from rollouts.fleet.weights.loader import WeightsLoader
from rollouts.fleet.weights.records import WeightsRecord
from runs.config.rules import run_config
from runs.config.rules.sections import PolicyConfig

ROOM = 1 << 40
"""More fragments than a worker can produce."""
CARTPOLE = "gymnasium:CartPole-v1"
GPU_SHARE = 0.25
"""Share of the GPU that a worker on it reserves."""
OBSERVATION = Space(kind="box", shape=(4,), dtype="float32")
ACTION = Space(kind="discrete", shape=(), dtype="int64", choices=2)
"""Action space of CartPole-v1."""


def fresh_weights(
    config: PolicyConfig, observation: Space = OBSERVATION, action: Space = ACTION
) -> dict[str, NDArray[Any]]:
    """Return initial weights of a policy, by default for CartPole-v1."""
    torch.manual_seed(0)
    module = make_module(config, observation, action)
    return {name: np.array(value) for name, value in module.state_dict().items()}


class SinkWorker:
    """A worker's loop in a separate thread; every fragment is encoded and discarded."""

    def __init__(self, settings: WorkerSettings, weights: Mapping[str, NDArray[Any]]) -> None:
        events = EventLog()
        monitor = PipelineMonitor(now=time.monotonic())
        self.delivered_bytes = 0
        self.collector = FragmentBuilder(
            settings, deliver=self._deliver, has_room=lambda: True, monitor=monitor
        )
        self.collector.set_command(epoch=1, policy_step=0, begins_fragments=True)
        self.collector.drop_stale_steps()
        self.collector.grant(ROOM)
        self._loader = WeightsLoader(events, announce_ready=lambda: None)
        self._loader.offer(WeightsRecord(epoch=1, step=0, tensors=weights))
        self._worker = StepRolloutWorker(
            settings,
            weights=self._loader,
            progress_handler=self.collector,
            monitor=monitor,
            events=events,
        )
        self._worker.epoch = 1
        self._is_over = threading.Event()
        self._threads = [
            threading.Thread(target=self._loop, args=(turn,), daemon=True)
            for turn in (self._worker.turn, self._loader.turn)
        ]
        for thread in self._threads:
            thread.start()

    def rate(self, seconds: float) -> float:
        """Return the env steps per second after the first fragment.

        The measurement takes the given time, or longer until a step ends: one inference of a slow
        policy takes more than a tenth of a second.
        """
        while not self.collector.fragments_cut:
            time.sleep(0.05)
        steps, began = self.collector.env_steps, time.monotonic()
        time.sleep(seconds)
        while self.collector.env_steps == steps:
            time.sleep(0.05)
        return (self.collector.env_steps - steps) / (time.monotonic() - began)

    def close(self) -> None:
        """Stop the loop and every environment."""
        self._is_over.set()
        self._worker.wake()
        self._loader.close()
        for thread in self._threads:
            thread.join(10)
        self._worker.close()

    def _loop(self, turn: Any) -> None:
        while not self._is_over.is_set():
            turn()

    def _deliver(self, fragment: Fragment) -> None:
        self.delivered_bytes += len(encode(fragment))


@contextlib.contextmanager
def running(
    *,
    device: str,
    policy: Mapping[str, Any],
    envs: int,
    environment: Mapping[str, Any] | None = None,
) -> Iterator[SinkWorker]:
    """Run a worker of `envs` environments in one process until the block ends."""
    with tempfile.TemporaryDirectory() as folder:
        fleet = settings_of(
            folder, device=device, policy=policy, envs=envs, environment=environment
        )
        settings = WorkerSettings(fleet=fleet, index=0, incarnation="1-sink-0")
        config = settings.fleet.config
        spaces = describe(make(config.environment.spec, config.environment.kwargs))
        worker = SinkWorker(settings, fresh_weights(config.policy, *spaces))
        try:
            yield worker
        finally:
            worker.close()


def settings_of(
    folder: str,
    *,
    device: str,
    policy: Mapping[str, Any],
    envs: int,
    environment: Mapping[str, Any] | None = None,
    workers: int = 1,
    url: str = "http://127.0.0.1:9",
    **fleet: Any,
) -> FleetSettings:
    """Return the settings of a fleet, by default of CartPoles.

    Args:
        folder: Folder for unsent data and logs.
        device: Device of the policies.
        policy: Policy section of the run.
        envs: Environments per worker, all in one process.
        environment: Environment section of the run.
        workers: Number of workers.
        url: URL of the platform; by default none is reachable.
        fleet: Further settings of the fleet.
    """
    config = run_config.parse(
        {
            "fleet": {
                "num_workers": workers,
                "envs_per_worker": envs,
                "envs_per_process": envs,
                "inference_batch_size": envs,
                "device": device,
                "num_gpus_per_worker": GPU_SHARE if device == "cuda" else 0,
                **fleet,
            },
            "environment": environment or {"spec": CARTPOLE},
            "policy": policy,
        }
    )
    return FleetSettings(
        platform_url=url,
        token="",
        run="sink",
        run_config=run_config.to_builtins(config),
        incarnation="1-sink",
        spool_root=folder,
        log_root=folder,
    )
