"""The adapter uses only what MineStudio's simulator provides.

The class in this module is a stand-in with the same interface, not Minecraft. The real package
runs in `tests/partners/test_minestudio.py`, and passes the same checks here if it is installed.
"""

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rollouts.fleet.environments.loader import describe, make
from rollouts.fleet.policies.spaces import UnsupportedSpace

STAND_INS = str(Path(__file__).resolve().parents[4] / "stand_ins")


def forget_minestudio() -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "minestudio"]:
        del sys.modules[name]


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    forget_minestudio()
    monkeypatch.syspath_prepend(STAND_INS)
    yield importlib.import_module("minestudio.simulator")
    forget_minestudio()


def simulators() -> list[str]:
    forget_minestudio()
    real = ["installed"] if importlib.util.find_spec("minestudio") else []
    return ["stand-in", *real]


@pytest.mark.parametrize("which", simulators())
def test_the_simulator_has_the_interface_of_the_adapter(which: str, request: Any) -> None:
    if which == "stand-in":
        request.getfixturevalue("stand_in")
    simulator = importlib.import_module("minestudio.simulator").MinecraftSim
    callbacks = importlib.import_module("minestudio.simulator.callbacks")

    arguments = inspect.signature(simulator.__init__).parameters
    assert {"action_type", "obs_size", "render_size", "seed", "callbacks"} <= set(arguments)
    assert list(inspect.signature(simulator.reset).parameters) == ["self"]
    assert list(inspect.signature(simulator.step).parameters) == ["self", "action"]
    assert list(inspect.signature(simulator.render).parameters) == ["self"]
    assert isinstance(simulator.observation_space, property)
    assert isinstance(simulator.action_space, property)
    assert list(inspect.signature(callbacks.load_callbacks_from_config).parameters) == ["config"]


@pytest.mark.usefixtures("stand_in")
def test_the_simulator_runs_a_normal_episode() -> None:
    environment = make(
        "minestudio:MinecraftSim",
        {"obs_size": [6, 8], "length": 3, "callbacks": {"rewards": 2.0}},
    )
    shown, taken = describe(environment)

    obs, _ = environment.reset(seed=7)
    steps = [environment.step(np.array([8640, 120])) for _ in range(3)]
    picture: Any = environment.render()  # type: ignore[attr-defined]
    environment.close()

    assert shown.parts["image"].shape == (8, 6, 3), "obs_size is width × height"
    assert taken.each_choices == [8641, 121]
    assert obs["image"].shape == picture.shape == (8, 6, 3)
    assert [(reward, terminated, truncated) for _, reward, terminated, truncated, _ in steps] == [
        (2.0, False, False),
        (2.0, False, False),
        (2.0, True, False),
    ]


@pytest.mark.usefixtures("stand_in")
def test_callbacks_without_effect_are_refused() -> None:
    with pytest.raises(ValueError, match="no callback of MineStudio reads fast_reset"):
        make("minestudio:MinecraftSim", {"callbacks": {"fast_reset": {}}})


@pytest.mark.usefixtures("stand_in")
def test_a_seed_selects_the_world() -> None:
    environment = make("minestudio:MinecraftSim", {"obs_size": [6, 8]})

    one, other, again = (environment.reset(seed=seed)[0]["image"] for seed in (1, 2, 1))
    picture: Any = environment.render()  # type: ignore[attr-defined]

    assert np.array_equal(picture, again)
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)


@pytest.mark.usefixtures("stand_in")
def test_raw_actions_of_mixed_kinds_are_refused_with_their_name() -> None:
    with pytest.raises(UnsupportedSpace, match="cannot combine"):
        make("minestudio:MinecraftSim", {"action_type": "env"})


def test_without_minestudio_the_error_names_the_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forget_minestudio()
    monkeypatch.setitem(sys.modules, "minestudio", None)

    with pytest.raises(LookupError, match="pip install minestudio"):
        make("minestudio:MinecraftSim", {})
