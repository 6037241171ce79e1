"""Registered wrappers and callbacks apply in order; faulty ones are named by their position."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_platform import SmallPlatform, served

from rolldeck.wire import unpack_array
from rollouts.fleet.environments.loader import make
from rollouts.fleet.manager.manager import LocalFleet
from rollouts.fleet.process.extensions import ExtensionFailed
from rollouts.fleet.process.settings import FleetSettings
from rollouts.fleet.steps.env_messages import Began, EnvCrashed, Stepped
from rollouts.fleet.steps.envs_in_worker import EnvsInWorker
from runs.config.rules.sections import EnvironmentConfig, ExtensionConfig
from tests.waiting import eventually

NAMES = ("Changed", "Short", "RaisesInStep", "Wide", "fails")
WRAPPERS = ("Scaled", "FourValues", "nothing", "fails", "absent")
POLE = "gymnasium:CartPole-v1"


def wrapper(name: str, **kwargs: Any) -> ExtensionConfig:
    return ExtensionConfig(kind=f"module:own_wrappers:{name}", kwargs=kwargs)


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = [f"module:own_wrappers:{name}" for name in WRAPPERS]
    registered = ", ".join([*kinds, "module:no_such_package:Wrapper"])
    monkeypatch.setenv("ROLLDECK_ENVIRONMENT_WRAPPERS", registered)
    monkeypatch.syspath_prepend(Path(__file__).parents[1])


def test_the_first_wrapper_is_the_innermost() -> None:
    environment = make(POLE, {}, wrappers=[wrapper("Scaled", factor=3), wrapper("Scaled", plus=1)])
    environment.reset(seed=0)
    first = environment.step(0)[1]
    environment = make(POLE, {}, wrappers=[wrapper("Scaled", plus=1), wrapper("Scaled", factor=3)])
    environment.reset(seed=0)

    assert (first, environment.step(0)[1]) == (4.0, 6.0)


@pytest.mark.parametrize(
    ("faulty", "message", "is_missing"),
    [
        (wrapper("fails"), "raised ZeroDivisionError: no wrapper", False),
        (wrapper("nothing"), "returned NoneType, which has no observation_space", False),
        (wrapper("Scaled", other=1), "unexpected keyword argument 'other'", False),
        (wrapper("absent"), "cannot be imported: AttributeError", False),
        (wrapper("Other"), "must add it to ROLLDECK_ENVIRONMENT_WRAPPERS", True),
        (ExtensionConfig(kind="package:absent"), "has an entry point 'absent'", True),
        (ExtensionConfig(kind="module:no_such_package:Wrapper"), "ModuleNotFoundError", True),
    ],
)
def test_a_faulty_wrapper_is_named_by_its_position(
    faulty: ExtensionConfig, message: str, is_missing: bool
) -> None:
    with pytest.raises(ExtensionFailed) as caught:
        make(POLE, {}, wrappers=[wrapper("Scaled"), faulty])

    assert caught.value.field == "environment.wrappers[1]"
    assert message in str(caught.value)
    assert caught.value.is_missing is is_missing


def test_slots_step_in_their_wrappers_instead_of_a_vector() -> None:
    scaled = EnvironmentConfig(spec=POLE, wrappers=[wrapper("Scaled", factor=5)])
    worker = EnvsInWorker(scaled, slots=range(2), base_seed=1)
    worker.start()
    try:
        began = [one for one in worker.receive() if isinstance(one, Began)]
        worker.step(np.array([0, 1]), np.array([0, 0]))
        [came] = [one for one in worker.receive() if isinstance(one, Stepped)]
    finally:
        worker.kill()

    assert len(began) == 2
    assert came.reward.tolist() == [5.0, 5.0]


def test_a_wrapper_that_fails_is_an_error_of_its_slot() -> None:
    faulty = EnvironmentConfig(spec=POLE, wrappers=[wrapper("fails")])
    worker = EnvsInWorker(faulty, slots=range(1), base_seed=1)
    worker.start()
    try:
        [crash] = [one for one in worker.receive() if isinstance(one, EnvCrashed)]
    finally:
        worker.kill()

    assert "environment.wrappers[0]: module:own_wrappers:fails raised" in crash.error


Eventually = Callable[..., None]
CALLBACKS = ("Changed", "Short", "RaisesInStep", "Wide", "fails")


def callback(name: str, **kwargs: Any) -> ExtensionConfig:
    return ExtensionConfig(kind=f"module:own_callbacks:{name}", kwargs=kwargs)


@pytest.fixture(autouse=True)
def _callbacks_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = [f"module:own_callbacks:{name}" for name in CALLBACKS]
    monkeypatch.setenv("ROLLDECK_ENVIRONMENT_CALLBACKS", ",".join(kinds))
    monkeypatch.syspath_prepend(Path(__file__).parents[1])


def test_callbacks_change_actions_and_results_of_an_environment() -> None:
    own = make(POLE, {})
    changed = make(POLE, {}, callbacks=[callback("Changed", plus=2.0), callback("Changed")])
    first, _ = own.reset(seed=3)
    shown, _ = changed.reset(seed=3)
    obs, *_ = own.step(1)
    after, reward, _, _, info = changed.step(1)

    assert np.allclose(shown, first + 2.0)
    # Both callbacks flip the action, and multiply the reward by ten.
    assert np.allclose(after, obs + 2.0)
    assert (reward, info) == (100.0, {"bonus": 7.0})


def test_callbacks_receive_the_close_once(tmp_path: Path) -> None:
    file = tmp_path / "calls"
    environment = EnvironmentConfig(spec=POLE, callbacks=[callback("Changed", file=str(file))])
    worker = EnvsInWorker(environment, slots=range(2), base_seed=1)
    worker.start()
    worker.receive()
    worker.close()
    worker.close()

    assert file.read_text().splitlines() == ["before_close"] * 2


@pytest.mark.parametrize(
    ("faulty", "message", "is_missing"),
    [
        (callback("fails"), "raised ZeroDivisionError: no callback", False),
        (callback("Changed", other=1), "unexpected keyword argument 'other'", False),
        (callback("Other"), "must add it to ROLLDECK_ENVIRONMENT_CALLBACKS", True),
    ],
)
def test_a_callback_that_cannot_be_built_is_named_by_its_position(
    faulty: ExtensionConfig, message: str, is_missing: bool
) -> None:
    with pytest.raises(ExtensionFailed) as caught:
        make(POLE, {}, callbacks=[callback("Changed"), faulty])

    assert caught.value.field == "environment.callbacks[1]"
    assert message in str(caught.value)
    assert caught.value.is_missing is is_missing


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Short", "TypeError: after_step must return a tuple of 5 values, not tuple"),
        ("RaisesInStep", "ZeroDivisionError: no action"),
    ],
)
def test_a_callback_that_raises_in_a_step_is_an_error_of_its_slot(name: str, message: str) -> None:
    environment = EnvironmentConfig(spec=POLE, callbacks=[callback(name)])
    worker = EnvsInWorker(environment, slots=range(1), base_seed=1)
    worker.start()
    try:
        worker.receive()
        worker.step(np.array([0]), np.array([0]))
        [crash] = [one for one in worker.receive() if isinstance(one, EnvCrashed)]
    finally:
        worker.kill()

    expected = f"environment.callbacks[0]: module:own_callbacks:{name} raised {message}"
    assert expected in crash.error


@pytest.mark.parametrize("envs_in_worker", [True, False], ids=["in_worker", "in_processes"])
def test_changed_values_reach_the_fragments_and_metrics_of_a_fleet(
    make_settings: Callable[..., FleetSettings], envs_in_worker: bool
) -> None:
    platform = SmallPlatform()
    platform.publish(0)
    with served(platform) as url:
        settings = make_settings(
            url=url,
            spec="odd:counting",
            kwargs={"length": 5},
            envs_in_worker=envs_in_worker,
            environment={
                "callbacks": [
                    {"kind": "module:own_callbacks:Changed", "kwargs": {"plus": 100.0}},
                ]
            },
        )
        with LocalFleet(settings):
            eventually(lambda: len(platform.fragments) > 8)
            eventually(lambda: any(report.info.sums for report in platform.reports))
            fragments = list(platform.fragments.values())
            sums = [one for report in platform.reports for one in report.info.sums]

    assert {(one.name, one.total / one.count) for one in sums} == {("bonus", 7.0)}
    for fragment in fragments[:8]:
        arrays = {name: unpack_array(array) for name, array in fragment.arrays.items()}
        assert set(arrays["reward"].tolist()) == {10.0}
        assert set(arrays["obs"][:, 0].tolist()) <= {100.0, 101.0, 102.0, 103.0, 104.0}
        assert set(arrays["final_obs"][:, 0].tolist()) <= {105.0}
