"""Run the turns of a rollout worker from a test, with real env processes and no threads."""

import time
from collections.abc import Callable
from typing import Any

import torch

from rolldeck.wire import Fragment
from rollouts.fleet.policies.factory import make_module
from rollouts.fleet.policies.networks import MlpPolicy
from rollouts.fleet.policies.spaces import Space
from rollouts.fleet.process.loops import EventLog
from rollouts.fleet.process.settings import WorkerSettings
from rollouts.fleet.process.spans import PipelineMonitor
from rollouts.fleet.steps.fragments import FragmentBuilder
from rollouts.fleet.steps.slots import ProgressHandler
from rollouts.fleet.steps.step_worker import StepRolloutWorker
from rollouts.fleet.weights.loader import WeightsLoader
from rollouts.fleet.weights.records import WeightsRecord


class Rollout:
    """A rollout worker with real env processes, whose turns the test runs."""

    def __init__(self, settings: WorkerSettings, *, handler: ProgressHandler | None = None) -> None:
        self._policy = settings.fleet.config.policy
        self.fragments: list[Fragment] = []
        self.weights = WeightsLoader(EventLog(), announce_ready=lambda: None)
        self.modules: dict[int, Any] = {}
        monitor = PipelineMonitor(now=time.monotonic())
        self.monitor = monitor
        self.deliver_seconds = 0.0
        self.collector = FragmentBuilder(
            settings, deliver=self._deliver, has_room=lambda: True, monitor=monitor
        )
        self.collector.grant(1_000_000)
        self.collector.set_command(epoch=1, policy_step=0, begins_fragments=True)
        self.worker = StepRolloutWorker(
            settings,
            weights=self.weights,
            progress_handler=handler or self.collector,
            monitor=monitor,
            events=EventLog(),
        )
        self.worker.epoch = 1

    def _deliver(self, fragment: Fragment) -> None:
        time.sleep(self.deliver_seconds)
        self.fragments.append(fragment)

    def publish(self, step: int, shown: Space, taken: Space) -> None:
        torch.manual_seed(step)
        module = make_module(self._policy, shown, taken)
        if not isinstance(module, MlpPolicy):
            # Initial heads are almost flat; larger weights reveal a wrong state.
            module.policy_head.weight.data *= 100
        self.modules[step] = module
        tensors = {name: value.numpy() for name, value in module.state_dict().items()}
        self.weights.offer(WeightsRecord(epoch=1, step=step, tensors=tensors))

    def until(self, condition: Callable[[], object], seconds: float = 60.0) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, "it never came true"
            self.weights.load()
            self.worker.turn()

    def of_one_slot(self) -> list[Fragment]:
        return [f for f in self.fragments if f.slot == self.fragments[0].slot]
