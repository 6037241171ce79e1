"""Fragment views are bounded, and invalid bytes are reported as such."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from buffer.inspect.rules.fragment_views import (
    LINE_POINTS,
    MOST_NUMBERS,
    MOST_STEPS,
    DecodedFragment,
    FragmentUnreadable,
    NoSuchStep,
    content_of,
    curves_of,
    joined,
    reward_sum,
    window,
)
from rolldeck import wire
from tests.buffer_factories import arrays, fragment, padded


def opened(steps: int = 4, **changed: Any) -> DecodedFragment:
    """Open a fragment with some arrays changed."""
    episodes = changed.pop("episode_ids", ["e0"])
    made = fragment(steps=steps, arrays=arrays(steps, **changed), episode_ids=episodes)
    return DecodedFragment(wire.encode(made))


def test_a_step_has_observation_action_and_reward() -> None:
    content = window(
        opened(
            obs=np.arange(16, dtype=np.float32).reshape(4, 4),
            action=np.array([1, 0, 1, 1]),
            reward=np.array([0.1, 0, -2.5, 1], np.float32),
            value=np.full(4, 20.5, np.float32),
        ),
        start=1,
        count=2,
    )

    assert (content.start, content.total) == (1, 4)
    assert (content.action, content.action_size) == ([[0], [1]], 1)
    assert content.obs == [[4, 5, 6, 7], [8, 9, 10, 11]]
    assert (content.reward, content.value) == ([0, -2.5], [20.5, 20.5])


def test_a_number_is_shown_in_its_precision_and_not_as_a_double() -> None:
    content = content_of(opened(reward=np.full(4, 0.1, np.float32)))

    assert content.reward_sum == 0.4
    assert content.curves.reward.last == [0.1] * 4


def test_long_actions_are_cut_and_pictures_are_described_by_their_size() -> None:
    content = window(
        opened(
            obs=np.zeros((4, 8, 8, 3), np.uint8),
            next_obs=np.zeros((8, 8, 3), np.uint8),
            action=np.zeros((4, 100), np.float32),
        ),
        start=0,
        count=4,
    )

    assert [len(action) for action in content.action] == [MOST_NUMBERS] * 4
    assert (content.action_size, content.obs, content.obs_size) == (100, [], 192)


def test_large_observations_are_summarized_by_their_range() -> None:
    picture = np.arange(4 * 20, dtype=np.uint8).reshape(4, 20)
    sensor = np.full((4, 2), -1.5, np.float32)
    content = window(
        opened(
            obs=None,
            next_obs=None,
            **{
                "obs.picture": picture,
                "obs.sensor": sensor,
                "next_obs.picture": picture[0],
                "next_obs.sensor": sensor[0],
            },
        ),
        start=1,
        count=1,
    )

    mean = (sum(range(20, 40)) - 3) / 22
    assert (content.obs, content.obs_size) == ([], 22)
    assert content.obs_range == [[-1.5, pytest.approx(mean, rel=1e-6), 39]]
    assert window(opened(), start=0, count=4).obs_range == []


def test_parts_of_observations_are_listed_together() -> None:
    content = window(
        opened(
            obs=None,
            next_obs=None,
            **{
                "obs.b": np.full((4, 2), 2, np.float32),
                "obs.a": np.full((4, 1), 1, np.float32),
                "next_obs.b": np.zeros(2, np.float32),
                "next_obs.a": np.zeros(1, np.float32),
            },
        ),
        start=0,
        count=1,
    )

    assert content.obs == [[1, 2, 2]]


def test_episodes_are_separated_with_how_they_ended() -> None:
    content = content_of(
        opened(
            6,
            first=np.array([0, 0, 1, 0, 1, 0], bool),
            terminated=np.array([0, 1, 0, 0, 0, 0], bool),
            truncated=np.array([0, 0, 0, 1, 0, 0], bool),
            episode_index=np.array([0, 0, 1, 1, 2, 2], np.int32),
            reward=np.array([1, 2, 3, 4, 5, 6], np.float32),
            episode_ids=["a", "b", "c"],
        )
    )

    episodes = [
        (episode.id, episode.first, episode.reward, episode.begins, episode.outcome)
        for episode in content.episodes
    ]
    assert episodes == [
        ("a", 0, 3, False, "terminated"),
        ("b", 2, 7, True, "truncated"),
        ("c", 4, 11, True, ""),
    ]
    assert content.curves.total.last == [1, 3, 3, 7, 5, 11]


def test_padding_is_marked_and_not_counted() -> None:
    made = DecodedFragment(wire.encode(fragment(steps=6, arrays=padded(6, real=4))))

    assert window(made, start=0, count=6).is_padding == [False] * 4 + [True] * 2
    content = content_of(made)
    assert (content.steps, content.real_steps, content.reward_sum) == (6, 4, 4)
    assert content.curves.step == [0, 1, 2, 3]


def test_a_window_behind_the_end_is_missing_and_windows_are_limited() -> None:
    with pytest.raises(NoSuchStep, match="4 steps"):
        window(opened(), start=4, count=1)
    assert len(window(opened(5000), start=0, count=1 << 30).reward) == MOST_STEPS


@given(
    steps=st.integers(1, 5000),
    spike=st.floats(-1e6, 1e6, width=32),
    at=st.floats(0, 1, exclude_max=True),
)
def test_spikes_of_rewards_are_kept(steps: int, spike: float, at: float) -> None:
    rewards = np.zeros(steps, np.float32)
    rewards[int(at * steps)] = spike
    curves = content_of(opened(steps, reward=rewards, value=-rewards)).curves

    assert len(curves.step) <= LINE_POINTS
    assert curves.step[-1] == steps - 1
    assert min(curves.reward.low) == pytest.approx(float(rewards.min()), rel=1e-6)
    assert max(curves.reward.high) == pytest.approx(float(rewards.max()), rel=1e-6)
    assert min(curves.value.low) == pytest.approx(float(-rewards.max()), rel=1e-6)
    assert curves.total.last[-1] == pytest.approx(spike, rel=1e-6)
    assert curves.is_exact is (steps <= LINE_POINTS)


def test_values_of_info_are_shown_by_step_and_null_without_a_number() -> None:
    values = np.array([0.1, np.nan, -2, 3], np.float32)
    never = np.full(4, np.nan, np.float32)
    made = opened(**{"info.speed": values, "info.cost.left": never})

    columns = window(made, start=1, count=2).info
    curves = content_of(made).curves.info

    assert [(one.key, one.values) for one in columns] == [
        ("cost.left", [None, None]),
        ("speed", [None, -2]),
    ]
    assert [(one.key, one.last, one.low) for one in curves] == [
        ("cost.left", [None] * 4, [None] * 4),
        ("speed", [0.1, None, -2, 3], [0.1, None, -2, 3]),
    ]
    assert (window(opened(), start=0, count=4).info, content_of(opened()).curves.info) == ([], [])


def test_a_curve_of_many_steps_keeps_the_numbers_between_steps_without_one() -> None:
    values = np.full(3 * LINE_POINTS, np.nan, np.float32)
    values[[3, 4, 8]] = 7, -1, 2
    [curve] = content_of(opened(3 * LINE_POINTS, **{"info.speed": values})).curves.info

    assert curve.last[:4] == [None, -1, 2, None]
    assert (curve.low[1], curve.high[1]) == (-1, 7)


def test_an_episode_has_the_values_of_all_its_fragments() -> None:
    ones = {"reward": np.ones(2, np.float32), "value": np.ones(2, np.float32)}
    parts = [ones, ones | {"info.speed": np.array([3, 4], np.float32)}]

    curves = curves_of([joined(parts)])

    assert curves.total.last == [1, 2, 3, 4]
    assert [(one.key, one.last) for one in curves.info] == [("speed", [None, None, 3, 4])]


def test_at_most_16_values_of_info_are_shown_and_all_are_listed() -> None:
    many = {f"info.k{number:02}": np.zeros(4, np.float32) for number in range(20)}
    made = opened(**many)

    shown = [one.key for one in window(made, start=0, count=1).info]
    listed = [one.name for one in content_of(made).arrays if one.name in many]
    assert shown == [f"k{number:02}" for number in range(16)]
    assert len(listed) == 20


@given(steps=st.integers(1, 60), width=st.integers(1, 20))
def test_consecutive_windows_are_the_fragment(steps: int, width: int) -> None:
    rewards = np.arange(steps, dtype=np.float32)
    whole = opened(steps, reward=rewards)

    parts = [window(whole, start=start, count=width) for start in range(0, steps, width)]

    assert [reward for part in parts for reward in part.reward] == list(range(steps))


@given(st.binary(max_size=200))
def test_invalid_fragment_bytes_are_refused_with_a_reason(content: bytes) -> None:
    with pytest.raises(FragmentUnreadable, match="not a valid fragment"):
        DecodedFragment(content)
    assert reward_sum(content) is None


def test_a_fragment_that_contradicts_itself_is_reported() -> None:
    broken = wire.encode(fragment(arrays=arrays(4, reward=np.ones(3, np.float32))))

    with pytest.raises(FragmentUnreadable, match=r"arrays\.reward: has shape \[3\] for 4 steps"):
        DecodedFragment(broken)
