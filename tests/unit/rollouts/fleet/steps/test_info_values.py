"""Numbers of `info` are found, and Gymnasium's own keys keep their meaning."""

from typing import Any

import gymnasium
import numpy as np
import pytest

from rollouts.fleet.steps.info_values import episode_info, numbers_of, split_rows


def test_numbers_and_bools_are_found_and_all_else_is_skipped() -> None:
    info = {
        "speed": 1.5,
        "lives": np.int64(3),
        "won": np.bool_(True),
        "zero_dim": np.array(2.0),
        "huge": 10**400,
        "text": "a",
        "none": None,
        "array": np.zeros(1),
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
        "huge": float("inf"),
    }


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
