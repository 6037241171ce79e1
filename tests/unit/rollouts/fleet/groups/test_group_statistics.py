"""Statistics of answer groups, and detection of groups without a learning signal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollouts.fleet.groups.outcomes import Group, describe_groups, split_by_variance

groups = st.integers(0, 8).flatmap(
    lambda size: st.builds(
        Group,
        st.lists(st.floats(-10, 10), min_size=size, max_size=size),
        st.lists(st.integers(0, 50), min_size=size, max_size=size),
        st.lists(st.booleans(), min_size=size, max_size=size),
        st.lists(st.sampled_from("abc"), min_size=size, max_size=size),
    )
)


def test_a_group_is_described() -> None:
    truncated, answers = [False, False, False, True], ["ab", "ba", "ab", "ab"]
    statistics = describe_groups([Group([1.0, 0.0, 0.0, 0.0], [2, 4, 6, 8], truncated, answers)])

    assert (statistics.groups, statistics.answers, statistics.tokens) == (1, 4, 20)
    assert (statistics.reward_mean, statistics.reward_deviation) == (
        0.25,
        pytest.approx(3**0.5 / 4),
    )
    assert (statistics.length_mean, statistics.length_p50, statistics.length_max) == (5, 5, 8)
    assert statistics.length_p95 == pytest.approx(7.7)
    assert (statistics.truncated, statistics.truncated_share) == (1, 0.25)
    assert (statistics.duplicates, statistics.duplicate_share) == (2, 0.5)
    assert statistics.zero_variance_groups == 0


def test_answers_are_compared_inside_their_group_only() -> None:
    same = Group([1.0, 1.0], [1, 1], [False, False], ["a", "b"])

    statistics = describe_groups(
        [same, same, Group([0.0, 1.0], [1, 1], [False, False], ["a", "a"])]
    )

    assert (statistics.groups, statistics.answers) == (3, 6)
    assert (statistics.duplicates, statistics.zero_variance_groups) == (1, 2)
    assert statistics.reward_deviation == pytest.approx(0.5 / 3)


def test_answers_may_be_tokens() -> None:
    same = Group([0, 1], [2, 2], [0, 0], [(1, 2), (1, 2)])

    assert describe_groups([same]).duplicates == 1


def test_figures_of_an_empty_group_are_zero() -> None:
    statistics = describe_groups([])

    assert (statistics.answers, statistics.reward_mean, statistics.length_p95) == (0, 0, 0)
    assert (statistics.truncated_share, statistics.duplicate_share) == (0, 0)


@given(st.lists(groups, max_size=4))
def test_figures_are_those_of_all_answers_and_in_bounds(several: list[Group]) -> None:
    statistics = describe_groups(several)

    alone = [describe_groups([group]) for group in several]
    for name in ("answers", "tokens", "truncated", "duplicates", "zero_variance_groups"):
        assert getattr(statistics, name) == sum(getattr(each, name) for each in alone)
    assert 0 <= statistics.truncated_share <= 1
    assert 0 <= statistics.duplicate_share <= 1
    assert statistics.length_p50 <= statistics.length_p95 <= statistics.length_max


def test_columns_of_different_lengths_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"groups\[0\]: 2 rewards, 1 lengths, 2 truncated, 2 ans"):
        describe_groups([Group([0.0, 1.0], [1], [False, False], ["a", "b"])])


def test_groups_without_variance_are_separated() -> None:
    rewards = {"mixed": [0.0, 1.0], "failed": [0.0, 0.0], "alone": [1.0], "right": [1.0, 1.0]}

    selected, dropped = split_by_variance(rewards, rewards_of=rewards.__getitem__)

    assert selected == ["mixed", "alone"]
    assert dropped == ["failed", "right"]
