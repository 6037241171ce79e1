"""Run a rollout worker for some steps, to probe the step callbacks of a run."""

import time
from collections.abc import Mapping
from typing import Any, Final

from rolldeck.wire import FleetEvent
from rollouts.fleet.policies.factory import make_module
from rollouts.fleet.policies.spaces import Space
from rollouts.fleet.process.loops import EventLog
from rollouts.fleet.process.settings import FleetSettings, WorkerSettings
from rollouts.fleet.process.spans import PipelineMonitor
from rollouts.fleet.steps.step_callbacks import EachStep
from rollouts.fleet.steps.step_worker import StepRolloutWorker
from rollouts.fleet.weights.loader import WeightsLoader
from rollouts.fleet.weights.records import WeightsRecord

STEPS: Final = 16
"""Number of steps after which the callbacks count as working."""


def run_worker(run_config: Mapping[str, Any], shown: Space, taken: Space) -> FleetEvent | None:
    """Run a worker with one environment, in this process, with initial weights.

    Args:
        run_config: Configuration of a run, as plain JSON values.
        shown: Observation space.
        taken: Action space.

    Returns:
        The last error of the worker; None on success.
    """
    small = {"envs_per_worker": 1, "envs_in_worker": True}
    fleet = {**run_config["fleet"], **small, "device": "cpu", "num_gpus_per_worker": 0}
    settings = FleetSettings(
        platform_url="",
        token="",
        run="check",
        run_config={**run_config, "fleet": fleet},
        incarnation="check",
        spool_root=".",
        log_root=".",
    )
    steps = 0

    def count(**_: Any) -> None:
        nonlocal steps
        steps += 1

    events = EventLog()
    weights = WeightsLoader(events, announce_ready=lambda: None)
    module = make_module(settings.config.policy, shown, taken)
    tensors = {name: value.numpy() for name, value in module.state_dict().items()}
    weights.offer(WeightsRecord(epoch=0, step=0, tensors=tensors))
    worker = StepRolloutWorker(
        WorkerSettings(fleet=settings, index=0, incarnation="check"),
        weights=weights,
        progress_handler=EachStep(count, slots=["w0-0"]),
        monitor=PipelineMonitor(now=time.monotonic()),
        events=events,
    )
    try:
        while steps < STEPS and not worker.refusal and not worker.is_broken:
            weights.load()
            worker.turn()
    finally:
        worker.close()
    errors = [event for event in events.pop() if event.level == "error"]
    return errors[-1] if errors else None
