"""Registered wrappers are applied in order; faulty ones are named by their position."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rollouts.fleet.environments.loader import make
from rollouts.fleet.process.extensions import ExtensionFailed
from rollouts.fleet.steps.env_messages import Began, EnvCrashed, Stepped
from rollouts.fleet.steps.envs_in_worker import EnvsInWorker
from runs.config.rules.sections import ExtensionConfig

NAMES = ("Scaled", "FourValues", "nothing", "fails", "absent")
POLE = "gymnasium:CartPole-v1"


def wrapper(name: str, **kwargs: Any) -> ExtensionConfig:
    return ExtensionConfig(kind=f"module:own_wrappers:{name}", kwargs=kwargs)


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = [f"module:own_wrappers:{name}" for name in NAMES]
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
    wrappers = [wrapper("Scaled", factor=5)]
    worker = EnvsInWorker(spec=POLE, kwargs={}, slots=range(2), base_seed=1, wrappers=wrappers)
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
    wrappers = [wrapper("fails")]
    worker = EnvsInWorker(spec=POLE, kwargs={}, slots=range(1), base_seed=1, wrappers=wrappers)
    worker.start()
    try:
        [crash] = [one for one in worker.receive() if isinstance(one, EnvCrashed)]
    finally:
        worker.kill()

    assert "environment.wrappers[0]: module:own_wrappers:fails raised" in crash.error
