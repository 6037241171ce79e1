"""Step callbacks get every argument of every step once."""

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from manual_turns import Rollout
from small_platform import running
from worker_bench import bench

from rollouts.fleet.policies.factory import make_module
from rollouts.fleet.policies.spaces import Space
from rollouts.fleet.process.settings import FleetSettings, WorkerSettings
from rollouts.fleet.steps.step_callbacks import EachStep
from rollouts.fleet.weights.records import WeightsRecord
from tests.waiting import eventually

MakeSettings = Callable[..., WorkerSettings]
Step = dict[str, Any]

SHOWN = Space(kind="box", shape=(4,), dtype="float32")
TAKEN = Space(kind="discrete", shape=(), dtype="int64", choices=2)
GRU = {"kind": "gru", "hidden_sizes": [8], "recurrent_units": 3}
MakeFleetSettings = Callable[..., FleetSettings]
NAMES = ("Lines", "Raising", "Changing", "Narrow", "nothing", "fails", "absent")


class Stepper(Rollout):
    """A worker without a fleet that collects its steps in a list."""

    def __init__(self, settings: WorkerSettings) -> None:
        self.steps: list[Step] = []
        slots = [f"slot {number}" for number in range(settings.fleet.config.fleet.envs_per_worker)]
        super().__init__(settings, handler=EachStep(self._take, slots=slots))
        torch.manual_seed(0)
        module = make_module(settings.fleet.config.policy, SHOWN, TAKEN)
        tensors = {name: value.numpy() for name, value in module.state_dict().items()}
        self.weights.offer(WeightsRecord(epoch=1, step=7, tensors=tensors))

    def _take(self, **step: Any) -> None:
        self.steps.append(step)

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


def callback(name: str, **kwargs: Any) -> dict[str, Any]:
    return {"kind": f"module:own_callbacks:{name}", "kwargs": kwargs}


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = [f"module:own_callbacks:{name}" for name in NAMES]
    monkeypatch.setenv("ROLLDECK_STEP_CALLBACKS", ", ".join(kinds))
    monkeypatch.syspath_prepend(Path(__file__).parents[1])


def test_every_step_of_a_fragment_reaches_every_callback_once(
    make_worker_settings: MakeSettings, tmp_path: Path
) -> None:
    files = [tmp_path / "first", tmp_path / "second"]
    settings = make_worker_settings(
        spec="odd:counting",
        kwargs={"length": 5},
        environment={"step_callbacks": [callback("Lines", file=str(file)) for file in files]},
    )
    with bench(settings, room=8) as b:
        eventually(lambda: b.order().is_drained and len(b.fragments) == 8)
        fragments = list(b.fragments)

    lines = files[0].read_text().splitlines()
    assert lines.pop() == "closed"
    assert files[1].read_text().splitlines() == [*lines, "closed"]
    steps = Counter(line.partition(" ")[0] for line in lines)
    assert steps == Counter({slot: 8 * n for slot, n in Counter(f.slot for f in fragments).items()})
    of_one = [line.split()[1:] for line in lines if line.split()[0] == fragments[0].slot]
    assert of_one[:7] == [["0", "0"], *([str(at % 5), "1"] for at in range(1, 7))]


@pytest.mark.parametrize(
    ("faulty", "message"),
    [
        (callback("Raising", at=3), "raised ZeroDivisionError: no step"),
        (callback("Changing", argument="obs"), "raised ValueError: assignment destination is read"),
        (callback("Narrow"), "raised TypeError: Narrow.__call__() got an unexpected keyword"),
        (callback("Lines"), "raised TypeError: Lines.__init__() missing 1 required keyword-only"),
        (callback("fails"), "raised ZeroDivisionError: no callback"),
        (callback("nothing"), "returned NoneType, which is not callable"),
        (callback("absent"), "cannot be imported: AttributeError"),
        (callback("Other"), "must add it to ROLLDECK_STEP_CALLBACKS"),
        ({"kind": "package:absent"}, "has an entry point 'absent'"),
    ],
)
def test_a_faulty_callback_is_refused_at_its_position(
    make_worker_settings: MakeSettings, tmp_path: Path, faulty: dict[str, Any], message: str
) -> None:
    good = callback("Lines", file=str(tmp_path / "lines"))
    with bench(make_worker_settings(environment={"step_callbacks": [good, faulty]})) as b:
        eventually(lambda: b.order().report.state == "failed", 60.0)
        state = b.order()

    [refusal] = [event for event in b.reported if event.kind == "step_callback_refused"]
    assert refusal.level == "error"
    assert refusal.details["field"] == "environment.step_callbacks[1]"
    assert message in refusal.message
    assert state.report.reason == refusal.message
    assert state.cannot_recover


def test_arrays_of_actions_and_state_are_read_only(make_worker_settings: MakeSettings) -> None:
    settings = make_worker_settings(
        spec="gymnasium:Pendulum-v1",
        policy={"kind": "gru", "hidden_sizes": [8], "recurrent_units": 3},
        environment={"step_callbacks": [callback("Changing", argument="action")]},
    )
    shown = Space(kind="box", shape=(3,), dtype="float32")
    taken = Space(kind="box", shape=(1,), dtype="float32", low=[-2.0], high=[2.0])
    module = make_module(settings.fleet.config.policy, shown, taken)
    with bench(settings) as b:
        tensors = {name: value.numpy() for name, value in module.state_dict().items()}
        b.publish_tensors(1, tensors)
        eventually(lambda: b.order(policy_step=1).report.state == "failed", 60.0)

    assert "step_callback_refused" in b.events
    assert not b.fragments


def test_a_refused_callback_stops_the_fleet_for_good(make_settings: MakeFleetSettings) -> None:
    environment = {"step_callbacks": [callback("Raising", at=20)]}
    with running(make_settings, num_workers=2, environment=environment) as platform:
        eventually(lambda: platform.reports and platform.reports[-1].state == "failed", 60.0)
        report = platform.reports[-1]
        eventually(lambda: "worker_failed" in platform.events())

    assert report.is_final
    assert report.reason.startswith(
        "2 of 2 workers were given up: environment.step_callbacks[0]: module:own_callbacks:Raising"
    )
    refusals = [one for one in platform.all_events() if one.kind == "step_callback_refused"]
    assert {one.details["field"] for one in refusals} == {"environment.step_callbacks[0]"}
    assert "worker_respawned" not in platform.events()
