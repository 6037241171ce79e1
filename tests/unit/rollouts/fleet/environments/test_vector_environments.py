"""Rows of a vector environment behave like single environments."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from numpy.typing import NDArray

from rollouts.fleet.environments import loader as environments
from rollouts.fleet.steps.env_messages import (
    Began,
    EnvCrashed,
    Ready,
    Setup,
    StepResult,
    anonymous_memory,
)
from rollouts.fleet.steps.env_rows import EnvRows
from runs.config.rules.sections import EnvironmentConfig

ROWS = 5


class Alone:
    """CartPole from Gymnasium, reset after each episode."""

    def __init__(self, seed: int) -> None:
        self._environment = gymnasium.make("CartPole-v1")
        self.obs, _ = self._environment.reset(seed=seed)

    def step(self, action: int) -> tuple[Any, ...]:
        self.obs, *rest, _ = self._environment.step(action)
        return self.obs, *rest

    def reset(self) -> None:
        self.obs, _ = self._environment.reset()


def test_cartpoles_are_those_of_gymnasium_to_the_last_bit() -> None:
    vector = environments.make_vector("gymnasium:CartPole-v1", {}, rows=ROWS)
    assert vector is not None
    alone = [Alone(seed) for seed in range(ROWS)]
    for row, prompt_answers in enumerate(alone):
        np.testing.assert_array_equal(vector.reset(row, seed=row), prompt_answers.obs)
    random = np.random.default_rng(1)
    ended = 0
    for _ in range(500):
        rows = np.flatnonzero(random.random(ROWS) < 0.7)
        random.shuffle(rows)
        actions = random.integers(0, 2, len(rows))
        obs, reward, terminated, truncated = vector.step(rows, actions)
        for at, row in enumerate(rows.tolist()):
            expected = alone[row].step(int(actions[at]))
            np.testing.assert_array_equal(obs[at], expected[0])
            assert (reward[at], terminated[at], truncated[at]) == expected[1:]
            if terminated[at] or truncated[at]:
                ended += 1
                alone[row].reset()
                np.testing.assert_array_equal(vector.reset(row), alone[row].obs)
    assert ended > ROWS


def test_a_cartpole_that_does_not_fall_is_truncated_at_gymnasiums_limit() -> None:
    vector = environments.make_vector("gymnasium:CartPole-v1", {}, rows=1)
    assert vector is not None
    obs = vector.reset(0, seed=3)[None]
    for _ in range(500):
        leans_right = obs[0, 2] + 0.5 * obs[0, 3] > 0
        obs, _, terminated, truncated = vector.step(np.array([0]), np.array([int(leans_right)]))
        if truncated.any():
            break
    assert vector._lengths.tolist() == [500]  # type: ignore[attr-defined]
    assert not terminated.any()


def test_a_cartpole_with_arguments_is_stepped_alone() -> None:
    kwargs = {"sutton_barto_reward": True}
    assert environments.make_vector("gymnasium:CartPole-v1", kwargs, rows=2) is None


class Fragile:
    """Environment that counts the steps of each row and raises on request."""

    observation_space = environments.Space(kind="box", shape=(1,), dtype="float32")
    action_space = environments.Space(kind="discrete", shape=(), dtype="int64", choices=3)

    def __init__(self, rows: int) -> None:
        self._steps = np.zeros(rows)

    def reset(self, row: int, **_: Any) -> NDArray[Any]:
        self._steps[row] = 0
        return np.zeros(1, np.float32)

    def step(self, rows: NDArray[np.intp], actions: NDArray[Any]) -> Any:
        if (actions == 2).any():
            raise RuntimeError("as configured")
        self._steps[rows] += 1
        ended = actions == 1
        return self._steps[rows, None].astype(np.float32), ended * 1.0, ended, ~ended & False

    def close(self) -> None:
        pass


class Held:
    """Rows that record their messages."""

    def __init__(self, spec: str, rows: int) -> None:
        self.messages: list[Any] = []
        self.rows = EnvRows(
            Setup(EnvironmentConfig(spec=spec), [0] * rows),
            emit=self.messages.append,
            memory=anonymous_memory(),
        )
        for row in range(rows):
            self.rows.build(row, 0)

    @property
    def block(self) -> Any:
        return self.rows.block

    def step(self, actions: dict[int, int]) -> list[Any]:
        self.messages.clear()
        self.block.actions[list(actions)] = list(actions.values())
        self.rows.step(np.array(list(actions)))
        return self.messages


@pytest.fixture
def fragile(monkeypatch: pytest.MonkeyPatch) -> Held:
    monkeypatch.setitem(
        environments._vector_factories, "test:fragile", lambda _, rows: Fragile(rows)
    )
    return Held("test:fragile", 3)


def test_rows_are_reset_one_by_one_and_stepped_together(fragile: Held) -> None:
    assert [type(message) for message in fragile.messages] == [Ready, Began, Began, Began]
    (result,) = fragile.step({2: 0, 0: 0})
    assert isinstance(result, StepResult)
    assert result.rows == [2, 0]
    assert fragile.block.obs[:, 0].tolist() == [1, 0, 1]


def test_an_ended_row_is_reset_and_keeps_its_last_observation(fragile: Held) -> None:
    fragile.step({0: 0, 1: 0})
    fragile.step({0: 0, 1: 1})
    assert fragile.block.terminated[:2].tolist() == [False, True]
    assert fragile.block.final_obs[1, 0] == 2
    assert fragile.block.obs[:2, 0].tolist() == [2, 0]


def test_an_invalid_first_observation_breaks_one_row_of_a_vector(
    fragile: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    nan = np.full(1, np.nan, np.float32)
    monkeypatch.setattr(Fragile, "reset", lambda *_, **__: nan)
    (result,) = fragile.step({0: 0, 1: 1})

    assert isinstance(result, StepResult)
    assert [crash.row for crash in result.crashed] == [1]
    assert fragile.block.final_obs[1, 0] == 1
    assert fragile.block.obs[:, 0].tolist() == [1, 0, 0]


def test_rows_that_break_together_are_each_reported_and_rebuilt(fragile: Held) -> None:
    messages = fragile.step({0: 2, 1: 0})
    assert [(type(message), message.row) for message in messages] == [
        (EnvCrashed, 0),
        (EnvCrashed, 1),
    ]
    fragile.rows.build(0, 1)
    (result,) = [m for m in fragile.step({0: 0, 2: 0}) if isinstance(m, StepResult)]
    assert result.rows == [0, 2]
