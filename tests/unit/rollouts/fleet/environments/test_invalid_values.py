"""Values of environments are compared with their spaces before anything uses them."""

from typing import Any, NamedTuple

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from rollouts.fleet.environments import loader as environments
from rollouts.fleet.policies.spaces import UnsupportedSpace, invalid_rows, observations
from rollouts.fleet.steps.env_messages import (
    EnvCrashed,
    OutsideBounds,
    Setup,
    StepResult,
    anonymous_memory,
)
from rollouts.fleet.steps.env_rows import EnvRows
from runs.config.rules.sections import EnvironmentConfig

NAN = float("nan")
FLAT = spaces.Box(-np.inf, np.inf, (4,), np.float32)
IMAGE = spaces.Box(0, 255, (8, 8, 3), np.uint8)
DICT = spaces.Dict({"a": spaces.Box(-9, 9, (4,), np.float32), "n": spaces.Discrete(5)})
NUMBERED = spaces.Dict({0: FLAT, 1: spaces.Discrete(3)})
GOOD: Any = {"a": np.ones(4, np.float32), "n": 4}


class Returning(gymnasium.Env[Any, Any]):
    """Environment that returns given values in its second step, and valid ones before it."""

    action_space = spaces.Discrete(2)

    def __init__(self, space: Any, given: tuple[Any, ...], first: Any = None) -> None:
        self.observation_space = space
        self._given, self._steps = given, 0
        self._first = first
        """First observation of every episode after the first one; None samples valid ones."""

    def reset(self, *, seed: int | None = None, **_: Any) -> tuple[Any, dict[str, Any]]:
        has_begun, self._steps = self._steps > 0, 0
        self.observation_space.seed(seed)
        is_given = has_begun and self._first is not None
        return self._first if is_given else self.observation_space.sample(), {}

    def step(self, _: Any) -> Any:
        self._steps += 1
        if self._steps == 2:
            return self._given
        return self.observation_space.sample(), 1.0, False, False, {}


class Unreadable(np.float64):
    """Number that cannot be converted."""

    def __float__(self) -> float:
        raise RuntimeError("unreadable")


class Rows:
    """Two rows: one returns the given values, the other one valid values."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, space: Any, given: tuple[Any, ...], first: Any = None
    ) -> None:
        valid = (space.sample(), 1.0, False, False, {})
        made = iter([Returning(space, given, first), Returning(space, valid)])
        monkeypatch.setitem(environments._factories, "test", lambda *_: next(made))
        self.messages: list[Any] = []
        self.rows = EnvRows(
            Setup(EnvironmentConfig(spec="test:x"), [0, 1], is_info_immediate=True),
            emit=self.messages.append,
            memory=anonymous_memory(),
        )
        for row in range(2):
            self.rows.build(row, row)

    def step(self) -> list[Any]:
        self.messages.clear()
        self.rows.step(np.arange(2))
        return self.messages


def given(obs: Any, reward: Any = 1.0, terminated: Any = False, truncated: Any = False) -> Any:
    return obs, reward, terminated, truncated, {}


class Case(NamedTuple):
    space: Any
    given: Any
    problem: str


INVALID = {
    "another shape": Case(FLAT, given(np.ones(1)), "obs has shape [1], its space [4]"),
    "one more axis": Case(FLAT, given(np.ones((1, 4))), "obs has shape [1, 4], its space [4]"),
    "None": Case(FLAT, given(None), "obs has shape [], its space [4]"),
    "NaN": Case(FLAT, given([0, NAN, 0, 0]), "obs[1] is nan; it must be finite in float32"),
    "1e308 in float32": Case(FLAT, given([1e308, 0, 0, 0]), "obs[0] is inf; it must be finite"),
    "1e308 in float64": Case(
        spaces.Box(-np.inf, np.inf, (1,), np.float64), given([1e308]), "obs[0] is 1e+308"
    ),
    "1e6 in float16": Case(
        spaces.Box(-np.inf, np.inf, (1,), np.float16), given([1e6]), "obs[0] is inf"
    ),
    "text": Case(FLAT, given(["1"] * 4), "obs is <U1, its space float32"),
    "floats in an image": Case(
        IMAGE, given(np.ones(IMAGE.shape)), "obs is float64, its space uint8"
    ),
    "integers out of range": Case(
        spaces.Box(0, 255, (3,), np.uint8),
        given([300, -1, 5]),
        "obs contains -1, its space is uint8",
    ),
    "floats as integers": Case(
        spaces.Box(-9, 9, (1,), np.int32), given([0.7]), "obs is float64, its space int32"
    ),
    "choice out of range": Case(
        spaces.Discrete(5, start=-2), given(3), "obs is 3; its choices are -2 to 2"
    ),
    "choices out of range": Case(
        spaces.MultiDiscrete([[2, 3]], start=[[1, 1]]), given([[1, 4]]), "obs[1] is 3; its choices"
    ),
    "a missing part": Case(DICT, given({"n": 1}), "obs has the parts ['n'], its space ['a', 'n']"),
    "a further part": Case(DICT, given({**GOOD, "z": 1}), "obs has the parts ['a', 'n', 'z']"),
    "no parts": Case(DICT, given(np.ones(4)), "obs is ndarray, its space Dict"),
    "another shape of a part": Case(
        DICT, given({**GOOD, "a": np.ones(1)}), "obs.a has shape [1], its space [4]"
    ),
    "NaN in a part": Case(DICT, given({**GOOD, "a": [0, 0, 0, NAN]}), "obs.a[3] is nan"),
    "a part out of range": Case(
        DICT, given({**GOOD, "n": 5}), "obs.n is 5; its choices are 0 to 4"
    ),
    "reward of two": Case(FLAT, given(np.ones(4), np.ones(2)), "reward has shape [2]"),
    "reward NaN": Case(FLAT, given(np.ones(4), NAN), "reward is nan; it must be finite in float32"),
    "reward 1e39": Case(FLAT, given(np.ones(4), 1e39), "reward is 1e+39; it must be finite"),
    "reward text": Case(FLAT, given(np.ones(4), "1"), "reward is str; it must be a number"),
    "no reward": Case(FLAT, given(np.ones(4), None), "reward is NoneType; it must be a number"),
    "two flags": Case(FLAT, given(np.ones(4), 1.0, [True, True]), "terminated has shape [2]"),
    "the old interface": Case(
        FLAT, (np.ones(4), 1.0, False, {}), "step returned a tuple of 4 values, not five values"
    ),
    "NaN at the end": Case(FLAT, given([NAN] * 4, 1.0, True), "step 2: obs[0] is nan"),
}


@pytest.mark.parametrize("case", INVALID.values(), ids=INVALID)
def test_an_invalid_value_ends_the_row_before_its_step_is_reported(
    monkeypatch: pytest.MonkeyPatch, case: Case
) -> None:
    rows = Rows(monkeypatch, case.space, case.given)

    [first] = rows.step()
    crash, result = rows.step()

    assert first.rows == [0, 1]
    assert isinstance(crash, EnvCrashed)
    assert (crash.row, crash.is_invalid_value) == (0, True)
    assert crash.error.startswith("test:x, step 2: ")
    assert case.problem in crash.error
    assert isinstance(result, StepResult)
    assert result.rows == [1]


FIRST = {
    "NaN": Case(FLAT, [NAN] * 4, "obs[0] is nan; it must be finite in float32"),
    "infinite": Case(FLAT, [0, 0, 0, -np.inf], "obs[3] is -inf"),
    "1e308 in float64": Case(spaces.Box(-np.inf, np.inf, (1,), np.float64), [1e308], "obs[0] is"),
    "another shape": Case(FLAT, np.zeros(1), "obs has shape [1], its space [4]"),
    "floats in an image": Case(IMAGE, np.ones(IMAGE.shape), "obs is float64, its space uint8"),
    "choice out of range": Case(spaces.Discrete(5), 5, "obs is 5; its choices are 0 to 4"),
    "negative choice": Case(spaces.Discrete(5), -1, "obs is -1; its choices are 0 to 4"),
    "choices out of range": Case(spaces.MultiDiscrete([2, 3]), [1, 3], "obs[1] is 3; its choices"),
    "NaN in a part": Case(DICT, {**GOOD, "a": [NAN] * 4}, "obs.a[0] is nan"),
    "a missing part": Case(DICT, {"n": 1}, "obs has the parts ['n'], its space ['a', 'n']"),
    "a tuple of two": Case(
        spaces.Tuple([FLAT, FLAT]), (np.ones(4), np.ones(4), 1), "obs has the parts [0, 1, 2]"
    ),
}


@pytest.mark.parametrize("case", FIRST.values(), ids=FIRST)
def test_an_invalid_first_observation_breaks_the_row_after_its_last_step(
    monkeypatch: pytest.MonkeyPatch, case: Case
) -> None:
    last = case.space.sample()
    rows = Rows(monkeypatch, case.space, given(last, 2.5, terminated=True), case.given)
    rows.step()
    [result] = rows.step()

    assert isinstance(result, StepResult)
    assert result.rows == [0, 1]
    [crash] = result.crashed
    assert (crash.row, crash.is_invalid_value) == (0, True)
    assert crash.error.startswith("test:x, reset: ")
    assert case.problem in crash.error
    block = rows.rows.block
    assert block is not None
    assert (block.reward[0], block.terminated.tolist()) == (2.5, [True, False])
    assert str(block.final_obs[0]) == str(observations(case.space)[1](last))
    assert invalid_rows(observations(case.space)[0], block.obs, "obs") == {}


def test_the_info_of_an_invalid_step_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = Rows(monkeypatch, FLAT, ([NAN] * 4, 1.0, False, True, {"success": 1.0}))
    rows.step()
    crash, result = rows.step()
    assert [type(crash), type(result)] == [EnvCrashed, StepResult]


@pytest.mark.parametrize("info", [np.ones(2), {"a": Unreadable()}], ids=["array", "value"])
def test_an_info_that_cannot_be_read_ends_its_row_only(
    monkeypatch: pytest.MonkeyPatch, info: Any
) -> None:
    rows = Rows(monkeypatch, FLAT, (np.ones(4), 1.0, True, False, info))
    rows.step()
    crash, result = rows.step()
    assert (type(crash), crash.row, crash.is_invalid_value) == (EnvCrashed, 0, False)
    assert (type(result), result.rows) == (StepResult, [1])


VALID = {
    "int64 in float32": Case(FLAT, given([1, 2, 3, 4]), "[1.0, 2.0, 3.0, 4.0]"),
    "float64 in float32": Case(FLAT, given(np.full(4, 0.5)), "[0.5, 0.5, 0.5, 0.5]"),
    "int64 in int32": Case(spaces.Box(-9, 9, (2,), np.int32), given(np.array([3, -3])), "[3, -3]"),
    "int64 in uint8": Case(spaces.Box(0, 255, (2,), np.uint8), given([255, 0]), "[255, 0]"),
    "bool in uint8": Case(spaces.Box(0, 1, (2,), np.uint8), given([True, False]), "[1, 0]"),
    "uint16 in int32": Case(
        spaces.Box(0, 60_000, (1,), np.uint16), given(np.array([60_000], np.uint16)), "[60000]"
    ),
    "a NumPy choice": Case(spaces.Discrete(5, start=-2), given(np.int8(-2)), "-2"),
    "an array as reward": Case(FLAT, given([0] * 4, np.array([2.5])), "[0.0, 0.0, 0.0, 0.0]"),
    "NumPy flags": Case(FLAT, given([0] * 4, np.float32(1), np.bool_(False), 0), "[0.0, 0.0,"),
    "parts": Case(DICT, given(GOOD), "(array([1., 1., 1., 1.], dtype=float32), 4)"),
    "numbers as keys": Case(
        NUMBERED, given({0: np.ones(4), 1: 2}), "(array([1., 1., 1., 1.], dtype=float32), 2)"
    ),
}


@pytest.mark.parametrize("case", VALID.values(), ids=VALID)
def test_a_value_that_its_space_can_hold_is_stored(
    monkeypatch: pytest.MonkeyPatch, case: Case
) -> None:
    rows = Rows(monkeypatch, case.space, case.given)
    rows.step()
    [result] = rows.step()

    assert isinstance(result, StepResult)
    assert result.rows == [0, 1]
    assert rows.rows.block is not None
    assert str(rows.rows.block.obs[0].tolist()).startswith(case.problem)
    reward = rows.rows.block.reward[0]
    assert reward == np.asarray(case.given[1]).item()


def test_an_observation_outside_its_bounds_is_reported_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    box = spaces.Box(0, 1, (2,), np.float32)
    rows = Rows(monkeypatch, box, given(np.array([0.5, 5], np.float32)))
    rows.step()

    warned, result = rows.step()
    assert warned == OutsideBounds(0, "test:x: obs[1] is 5.0; its bounds are 0 to 1")
    assert result.rows == [0, 1]
    rows.rows._rows[0].reset()  # type: ignore[union-attr]
    assert [type(message) for message in rows.step() + rows.step()] == [StepResult] * 2


@pytest.mark.parametrize("name", ["final_obs", "final_observation"])
def test_the_last_observation_of_an_environment_that_began_again_is_its_final_one(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    last, begun = np.full(4, 5, np.float32), np.zeros(4, np.float32)
    rows = Rows(monkeypatch, FLAT, (begun, 1.0, False, True, {name: last, "final_info": {}}))
    rows.step()
    [result] = rows.step()

    assert result.rows == [0, 1]
    assert rows.rows.block is not None
    assert rows.rows.block.final_obs[0].tolist() == last.tolist()


def test_parts_of_the_same_name_are_refused_with_both() -> None:
    both = spaces.Dict({"a.b": FLAT, "a": spaces.Dict({"b": FLAT})})
    with pytest.raises(UnsupportedSpace, match=r"named 'a\.b': \['a'\]\['b'\] and \['a\.b'\]"):
        observations(both)
