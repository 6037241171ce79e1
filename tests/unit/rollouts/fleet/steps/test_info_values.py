"""Numbers and tasks in the `info` of environments, and their sums."""

import math
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import odd_environments  # noqa: F401 registers them
import pytest

from rolldeck.fleet_wire import INFO_NAMES_AT_MOST, InfoDrops, InfoSum, InfoWindow
from rollouts.fleet.policies.factory import make_policy
from rollouts.fleet.policies.networks import MlpPolicy
from rollouts.fleet.policies.policy_protocol import Policy
from rollouts.fleet.policies.spaces import Space
from rollouts.fleet.process.settings import FleetSettings
from rollouts.fleet.steps.env_messages import InfoReport, Setup, anonymous_memory
from rollouts.fleet.steps.env_rows import EnvRows
from rollouts.fleet.steps.evaluator import EvaluationRound
from rollouts.fleet.weights.records import WeightsRecord
from rollouts.fleet.worker.info_values import (
    InfoTotals,
    episode_info,
    numbers_at,
    numbers_of,
    split_rows,
)
from runs.config.rules.sections import EnvironmentConfig


def test_numbers_and_bools_are_found_and_all_else_is_skipped() -> None:
    info = {
        "speed": 1.5,
        "lives": np.int64(3),
        "won": np.bool_(True),
        "zero_dim": np.array(2.0),
        "huge": 10**400,
        "text": "a",
        "none": None,
        "one": np.array([[4]]),
        "array": np.zeros(2),
        "nested": {"a": 1},
        "_speed": 1,
        "final_observation": 3,
        "final_obs": 3,
        "final_info": {"speed": 9},
        7: 1.0,
    }

    assert dict(numbers_of(info)) == {
        "speed": 1.5,
        "lives": 3.0,
        "won": 1.0,
        "zero_dim": 2.0,
        "one": 4.0,
        "huge": float("inf"),
    }


@pytest.mark.parametrize(
    ("info", "key", "found"),
    [
        ({"cost": 2}, "cost", 2.0),
        ({"cost": True}, "cost", 1.0),
        ({"cost": np.bool_(False)}, "cost", 0.0),
        ({"cost": np.float16(0.5)}, "cost", 0.5),
        ({"cost": np.array([3])}, "cost", 3.0),
        ({"cost": -1e30}, "cost", -1e30),
        ({"cost": {"left": {"knee": 4}}}, "cost.left.knee", 4.0),
        ({"cost.left": 5}, "cost.left", 5.0),
        ({"cost": {"left.knee": 6}}, "cost.left.knee", 6.0),
        ({"cost": {"left": 4}}, "cost", None),
        ({"cost": 4}, "cost.left", None),
        ({"cost": "4"}, "cost", None),
        ({"cost": None}, "cost", None),
        ({"cost": 1j}, "cost", None),
        ({"cost": [4]}, "cost", None),
        ({"cost": np.zeros(2)}, "cost", None),
        ({"cost": np.zeros(0)}, "cost", None),
        ({"cost": np.array(["a"])}, "cost", None),
        ({"cost": math.inf}, "cost", None),
        ({"cost": math.nan}, "cost", None),
        ({"cost": 1.1e30}, "cost", None),
        ({"cost": 10**400}, "cost", None),
        ({}, "cost", None),
        (None, "cost", None),
        ("cost", "cost", None),
    ],
)
def test_a_stored_key_has_a_number_or_nan(info: Any, key: str, found: float | None) -> None:
    expected = [math.nan if found is None else found] * 2
    assert numbers_at(info, [key, key]) == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize("info", [None, [], "text", {}])
def test_other_things_than_dicts_have_no_numbers(info: Any) -> None:
    assert list(numbers_of(info)) == []


def test_statistics_of_gymnasium_keep_their_names() -> None:
    environment = gymnasium.wrappers.RecordEpisodeStatistics(gymnasium.make("CartPole-v1"))
    environment.reset(seed=0)
    terminated = truncated = False
    info: dict[str, Any] = {}
    while not terminated and not truncated:
        _, _, terminated, truncated, info = environment.step(0)

    found = dict(numbers_of(info))

    assert set(found) == {"episode/r", "episode/l", "episode/t"}
    assert found["episode/r"] == found["episode/l"] > 1


def test_final_info_replaces_the_info_of_the_next_episode() -> None:
    assert episode_info({"score": 0, "final_info": {"score": 9}}) == {"score": 9}
    assert episode_info({"score": 4}) == {"score": 4}
    assert episode_info(None) is None


def test_columns_of_gymnasiums_vector_environments_are_split_by_their_masks() -> None:
    environments = gymnasium.vector.SyncVectorEnv(
        [lambda: gymnasium.wrappers.RecordEpisodeStatistics(gymnasium.make("CartPole-v1"))] * 3,
        autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP,
    )
    environments.reset(seed=[1, 2, 3])
    info: dict[str, Any] = {}
    while "final_info" not in info:
        *_, info = environments.step(np.array([0, 1, 0]))
    ended = np.flatnonzero(info["_final_info"]).tolist()

    rows = split_rows(info, 3)

    for row in range(3):
        found = dict(numbers_of(episode_info(rows[row])))
        assert ("episode/r" in found) == (row in ended)
        assert "final_obs" not in rows[row]


def test_an_array_of_dicts_is_split_as_well() -> None:
    final = np.array([None, {"score": 3}], dtype=object)
    info = {"final_info": final, "_final_info": np.array([False, True]), "speed": np.ones(2)}

    assert split_rows(info, 2) == [{"speed": 1.0}, {"speed": 1.0, "final_info": {"score": 3}}]


@pytest.mark.parametrize(
    ("info", "name"),
    [
        ({"speed": np.ones(3)}, "speed"),
        ({"speed": 1.0}, "speed"),
        ({"speed": np.ones(2), "_speed": np.ones(1, dtype=np.bool_)}, "_speed"),
    ],
)
def test_a_column_of_another_length_is_refused_by_name(info: dict[str, Any], name: str) -> None:
    with pytest.raises(ValueError, match=f"info '{name}' must have 2 rows"):
        split_rows(info, 2)


def test_return_and_length_are_added_to_the_task_of_an_episode() -> None:
    messages: list[Any] = []
    setup = Setup(EnvironmentConfig(spec="odd:tasks"), [0], is_info_immediate=True)
    rows = EnvRows(setup, emit=messages.append, memory=anonymous_memory())
    rows.build(0, 1)
    for _ in range(2 + 3 + 2):
        rows.step(np.array([0]))
    rows.close()

    sums: dict[str, list[tuple[int, float]]] = {}
    for message in messages:
        if isinstance(message, InfoReport):
            for one in message.window.sums:
                assert one.scope == "episode"
                sums.setdefault(one.name, []).append((one.count, one.total))
    assert sums == {
        "task/push/return": [(1, 2.0), (1, 2.0)],
        "task/push/length": [(1, 2.0), (1, 2.0)],
        "task/lift/return": [(1, 3.0)],
        "task/lift/length": [(1, 3.0)],
    }


def test_tasks_of_an_evaluation_have_separate_names(
    make_settings: Callable[..., FleetSettings],
) -> None:
    config = make_settings(spec="odd:tasks", evaluation={"episodes": 5, "envs": 1}).config
    tensors = {name: value.numpy() for name, value in MlpPolicy(4, 2, [8]).state_dict().items()}

    def policy(observation: Space, action: Space) -> Policy:
        return make_policy(config.policy, observation, action, seed=5, device="cpu")

    weights = WeightsRecord(epoch=0, step=0, tensors=tensors)
    evaluation = EvaluationRound(config, weights, make_policy=policy)
    evaluation.run()

    found = {one.name: (one.count, one.total) for one in evaluation.info.pop().sums}
    assert found == {
        "eval/task/push/return": (3, 6.0),
        "eval/task/push/length": (3, 6.0),
        "eval/task/lift/return": (2, 6.0),
        "eval/task/lift/length": (2, 6.0),
    }


def test_values_are_summed_by_name_and_scope_until_they_are_collected() -> None:
    totals = InfoTotals()
    totals.add("speed", 1.0, scope="step")
    totals.add("speed", 3.0, scope="step")
    totals.add("speed", 9.0, scope="episode")

    assert totals
    assert totals.pop() == InfoWindow(
        sums=[
            InfoSum(name="speed", scope="step", count=2, total=4.0),
            InfoSum(name="speed", scope="episode", count=1, total=9.0),
        ]
    )
    assert not totals
    assert totals.pop() == InfoWindow()


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 2e30])
def test_values_out_of_range_are_counted(value: float) -> None:
    totals = InfoTotals()
    totals.add("speed", value, scope="step")
    totals.add("speed", 1.0, scope="step")

    window = totals.pop()

    assert [one.total for one in window.sums] == [1.0]
    assert window.dropped == [InfoDrops(problem="out_of_range", count=1, example="speed")]


@pytest.mark.parametrize("name", ["x" * 65, "", "a\nb", "50%", "x" * 10_000])
def test_invalid_names_are_counted_with_a_short_example(name: str) -> None:
    totals = InfoTotals()
    totals.add(name, 1.0, scope="step")
    totals.add(name, 2.0, scope="step")

    assert totals.pop() == InfoWindow(
        dropped=[InfoDrops(problem="invalid_name", count=2, example=name[:200])]
    )


def test_the_first_names_are_kept_when_sums_are_collected() -> None:
    totals = InfoTotals()
    for number in range(INFO_NAMES_AT_MOST + 2):
        totals.add(f"n{number}", 1.0, scope="step")
    first = totals.pop()
    totals.add("another", 1.0, scope="step")
    totals.add("n0", 1.0, scope="episode")
    second = totals.pop()

    assert len(first.sums) == INFO_NAMES_AT_MOST
    assert first.dropped == [InfoDrops(problem="too_many_names", count=2, example="n64")]
    assert [one.name for one in second.sums] == ["n0"]
    assert [one.example for one in second.dropped] == ["another"]


def test_parts_of_a_fleet_are_merged_with_their_counts() -> None:
    whole = InfoTotals()
    drops = InfoDrops(problem="out_of_range", count=3, example="a")
    for _ in range(2):
        part = InfoSum(name="speed", scope="step", count=4, total=8.0)
        whole.merge(InfoWindow(sums=[part], dropped=[drops]))
    whole.merge(InfoWindow(sums=[InfoSum(name="speed", scope="step", count=5, total=math.inf)]))

    window = whole.pop()

    assert window.sums == [InfoSum(name="speed", scope="step", count=8, total=16.0)]
    assert window.dropped == [InfoDrops(problem="out_of_range", count=11, example="a")]
