"""A real worker steps environments of every kind in real env processes."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from manual_turns import Rollout

from buffer.ingest.rules import fragments as fragment_rules
from rolldeck.wire import unpack_array
from rollouts.fleet.policies.spaces import Space
from rollouts.fleet.process.settings import WorkerSettings

MakeSettings = Callable[..., WorkerSettings]

STAND_INS = Path(__file__).resolve().parents[4] / "stand_ins"
CHOICE = Space(kind="discrete", shape=(), dtype="int64", choices=2)


@pytest.fixture
def rollout(make_worker_settings: MakeSettings) -> Iterator[Callable[..., Rollout]]:
    made: list[Rollout] = []

    def begin(spec: str, **changes: Any) -> Rollout:
        made.append(Rollout(make_worker_settings(spec=spec, **changes)))
        return made[-1]

    yield begin
    for one in made:
        one.worker.close()


def test_a_registered_class_is_rolled_out(
    rollout: Callable[..., Rollout], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROLLDECK_ENVIRONMENTS", "module:my_lab:Maze")
    r = rollout("module:my_lab:Maze")
    r.publish(0, Space(kind="box", shape=(2,), dtype="float32"), CHOICE)

    r.until(lambda: len(r.fragments) >= 4)

    assert r.fragments[0].environment == "module:my_lab:Maze"


def test_an_unregistered_class_fails_its_slots_with_the_remedy(
    rollout: Callable[..., Rollout],
) -> None:
    r = rollout("module:my_lab:Maze")

    r.until(lambda: all(slot.error for slot in r.worker.reports()))

    for slot in r.worker.reports():
        assert "administrator must add it to ROLLDECK_ENVIRONMENTS" in slot.error


@pytest.mark.parametrize("kind", ["mlp", "gru"])
def test_the_recall_task_is_rolled_out_to_the_end(
    rollout: Callable[..., Rollout], kind: str
) -> None:
    policy = {"kind": kind, "hidden_sizes": [8], "recurrent_units": 4}
    r = rollout("rolldeck:recall-v0", kwargs={"delay": 2}, policy=policy)
    r.publish(0, Space(kind="box", shape=(3,), dtype="float32"), CHOICE)

    r.until(lambda: len(r.fragments) >= 8)

    arrays = {n: unpack_array(a) for n, a in r.fragments[0].arrays.items()}
    assert arrays["terminated"].tolist() == [False, False, False, True] * 2
    assert set(arrays["reward"][~arrays["terminated"]]) == {0.0}


def test_the_minestudio_interface_is_rolled_out_with_images_and_several_choices(
    rollout: Callable[..., Rollout], monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [str(STAND_INS), os.environ["PYTHONPATH"]]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    image = Space(kind="box", shape=(8, 6, 3), dtype="uint8")
    shown = Space(kind="parts", shape=(), dtype="", parts={"image": image})
    taken = Space(kind="multi_discrete", shape=(2,), dtype="int64", each_choices=[8641, 121])
    r = rollout(
        "minestudio:MinecraftSim",
        kwargs={"obs_size": [6, 8], "callbacks": {"rewards": 0.5}},
        policy={"kind": "gru", "hidden_sizes": [8], "recurrent_units": 4, "channels": [4]},
    )
    r.publish(0, shown, taken)

    r.until(lambda: len(r.fragments) >= 4)

    for fragment in r.fragments:
        fragment_rules.check(fragment)
    arrays = {n: unpack_array(a) for n, a in r.fragments[0].arrays.items()}
    assert arrays["obs.image"].shape == (8, 8, 6, 3)
    assert arrays["obs.image"].dtype == np.uint8
    assert arrays["action"].shape == (8, 2)
    assert arrays["reward"].tolist() == [0.5] * 8
    assert arrays["terminated"].tolist() == [at == 5 for at in range(8)]


@pytest.mark.parametrize("envs_in_worker", [False, True])
def test_the_time_of_reading_observations_excludes_cutting_and_enqueueing(
    rollout: Callable[..., Rollout], *, envs_in_worker: bool
) -> None:
    kwargs = {"delay": 2}
    r = rollout("rolldeck:recall-v0", kwargs=kwargs, envs_in_worker=envs_in_worker)
    r.publish(0, Space(kind="box", shape=(3,), dtype="float32"), CHOICE)
    r.deliver_seconds = 0.02

    r.until(lambda: len(r.fragments) >= 40)

    enqueued, read = r.monitor.total("enqueue"), r.monitor.total("recv")
    assert enqueued >= 40 * 0.02
    assert read < enqueued / 2
