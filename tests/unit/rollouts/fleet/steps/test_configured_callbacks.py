"""Step callbacks of a run take every step; faulty ones are refused at their field."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_platform import SmallPlatform, served
from worker_bench import bench

from rollouts.fleet.manager.manager import LocalFleet
from rollouts.fleet.process.settings import FleetSettings, WorkerSettings

Eventually = Callable[..., None]
MakeSettings = Callable[..., WorkerSettings]
MakeFleetSettings = Callable[..., FleetSettings]
NAMES = ("Lines", "Raising", "Changing", "Narrow", "nothing", "fails", "absent")


def callback(name: str, **kwargs: Any) -> dict[str, Any]:
    return {"kind": f"module:own_callbacks:{name}", "kwargs": kwargs}


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = [f"module:own_callbacks:{name}" for name in NAMES]
    monkeypatch.setenv("ROLLDECK_STEP_CALLBACKS", ", ".join(kinds))
    monkeypatch.syspath_prepend(Path(__file__).parents[1])


def test_every_step_of_a_fragment_reaches_every_callback_once(
    make_worker_settings: MakeSettings, eventually: Eventually, tmp_path: Path
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
    make_worker_settings: MakeSettings,
    eventually: Eventually,
    tmp_path: Path,
    faulty: dict[str, Any],
    message: str,
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


def test_arrays_of_actions_and_state_are_read_only(
    make_worker_settings: MakeSettings, eventually: Eventually
) -> None:
    settings = make_worker_settings(
        spec="gymnasium:Pendulum-v1",
        policy={"kind": "gru", "hidden_sizes": [8], "recurrent_units": 3},
        environment={"step_callbacks": [callback("Changing", argument="action")]},
    )
    from rollouts.fleet.policies.factory import make_module
    from rollouts.fleet.policies.spaces import Space

    shown = Space(kind="box", shape=(3,), dtype="float32")
    taken = Space(kind="box", shape=(1,), dtype="float32", low=[-2.0], high=[2.0])
    module = make_module(settings.fleet.config.policy, shown, taken)
    with bench(settings) as b:
        tensors = {name: value.numpy() for name, value in module.state_dict().items()}
        b.publish_tensors(1, tensors)
        eventually(lambda: b.order(policy_step=1).report.state == "failed", 60.0)

    assert "step_callback_refused" in b.events
    assert not b.fragments


def test_a_refused_callback_stops_the_fleet_for_good(
    make_settings: MakeFleetSettings, eventually: Eventually
) -> None:
    platform = SmallPlatform()
    platform.publish(0)
    with served(platform) as url:
        settings = make_settings(
            url=url,
            num_workers=2,
            environment={"step_callbacks": [callback("Raising", at=20)]},
        )
        with LocalFleet(settings):
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
