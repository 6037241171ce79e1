"""A step callback gets every step in order, with the outcome of the previous one."""

import time
from collections.abc import Callable, Iterator
from itertools import groupby, pairwise
from typing import Any

import numpy as np
import pytest
import torch

from rollouts.fleet.policies.factory import make_module
from rollouts.fleet.policies.spaces import Space
from rollouts.fleet.process.loops import EventLog
from rollouts.fleet.process.settings import WorkerSettings
from rollouts.fleet.process.spans import PipelineMonitor
from rollouts.fleet.steps.step_callbacks import EachStep
from rollouts.fleet.steps.step_worker import StepRolloutWorker
from rollouts.fleet.weights.loader import WeightsLoader
from rollouts.fleet.weights.records import WeightsRecord

MakeSettings = Callable[..., WorkerSettings]
Step = dict[str, Any]

SHOWN = Space(kind="box", shape=(4,), dtype="float32")
TAKEN = Space(kind="discrete", shape=(), dtype="int64", choices=2)
GRU = {"kind": "gru", "hidden_sizes": [8], "recurrent_units": 3}


class Stepper:
    """A worker without a fleet that collects its steps in a list."""

    def __init__(self, settings: WorkerSettings) -> None:
        self.steps: list[Step] = []
        self.weights = WeightsLoader(EventLog(), announce_ready=lambda: None)
        torch.manual_seed(0)
        module = make_module(settings.fleet.config.policy, SHOWN, TAKEN)
        tensors = {name: value.numpy() for name, value in module.state_dict().items()}
        self.weights.offer(WeightsRecord(epoch=1, step=7, tensors=tensors))
        slots = [f"slot {number}" for number in range(settings.fleet.config.fleet.envs_per_worker)]
        self.worker = StepRolloutWorker(
            settings,
            weights=self.weights,
            progress_handler=EachStep(self._take, slots=slots),
            monitor=PipelineMonitor(now=time.monotonic()),
            events=EventLog(),
        )
        self.worker.epoch = 1

    def _take(self, **step: Any) -> None:
        self.steps.append(step)

    def until(self, condition: Callable[[], object], seconds: float = 60.0) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, "it never came true"
            self.weights.load()
            self.worker.turn()

    def by_slot(self) -> dict[str, list[Step]]:
        ordered = sorted(self.steps, key=lambda step: str(step["worker_uuid"]))
        return {
            slot: list(steps) for slot, steps in groupby(ordered, key=lambda s: s["worker_uuid"])
        }


@pytest.fixture
def stepper(make_worker_settings: MakeSettings) -> Iterator[Callable[..., Stepper]]:
    made: list[Stepper] = []

    def make(**kwargs: Any) -> Stepper:
        made.append(Stepper(make_worker_settings(spec="odd:counting", kwargs=kwargs, policy=GRU)))
        return made[-1]

    yield make
    for one in made:
        one.worker.close()


def test_every_step_of_every_slot_is_passed_once_with_its_observation(
    stepper: Callable[..., Stepper],
) -> None:
    s = stepper(length=5)
    s.until(lambda: len(s.steps) >= 200 and len(s.by_slot()) == 4)

    for slot, steps in s.by_slot().items():
        # The observation is the number of steps in the episode.
        assert [int(step["obs"][0]) for step in steps] == [at % 5 for at in range(len(steps))]
        assert [step["last_reward"] for step in steps] == [0.0] + [1.0] * (len(steps) - 1)
        assert [step["last_terminated"] for step in steps] == [
            at % 5 == 0 for at in range(len(steps))
        ]
        assert not any(step["last_truncated"] for step in steps)
        assert [step["episode_uuid"] for step in steps] == [
            f"{slot}/{1 + at // 5}" for at in range(len(steps))
        ]


def test_a_step_has_action_and_weights_version(
    stepper: Callable[..., Stepper],
) -> None:
    s = stepper(length=5)
    s.until(lambda: len(s.steps) >= 60)

    assert {step["version"] for step in s.steps} == {(1, 7)}
    assert {int(step["action"]) for step in s.steps} == {0, 1}
    assert all(-3.0 < step["logprob"] < 0.0 for step in s.steps)
    for steps in s.by_slot().values():
        for before, step in pairwise(steps):
            has_begun = bool(step["last_terminated"])
            # State carries over between steps but not between episodes.
            assert step["state"]["hidden"].any() != has_begun
            assert not np.array_equal(before["state"]["hidden"], step["state"]["hidden"])


def test_an_episode_of_a_lost_environment_is_truncated(
    stepper: Callable[..., Stepper],
) -> None:
    s = stepper(length=5, raises_at=3)
    s.until(lambda: len(s.steps) >= 24)

    for steps in s.by_slot().values():
        assert [int(step["obs"][0]) for step in steps] == [at % 3 for at in range(len(steps))]
        begun = steps[3::3]
        assert all(step["last_truncated"] and not step["last_terminated"] for step in begun)
        assert [step["last_reward"] for step in begun] == [0.0] * len(begun)
        assert len({step["episode_uuid"] for step in steps}) == 1 + len(begun)
