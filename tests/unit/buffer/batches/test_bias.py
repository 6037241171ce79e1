"""Distances and sentences that describe selection bias."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from buffer.batches.rules.bias import (
    GroupSizes,
    Items,
    chance_distance,
    kolmogorov_smirnov,
    policy_costs,
    sentence,
    summary,
    total_variation,
)

values = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50)
names = st.lists(st.sampled_from("abc"), min_size=1, max_size=50)


def items(length: list[float], *, score: float = 0.5, environment: str = "math") -> Items:
    return Items(
        length=np.array(length, dtype=np.float64),
        score=np.full(len(length), score),
        environments=[environment] * len(length),
    )


def test_distances_are_those_of_the_textbook() -> None:
    assert kolmogorov_smirnov(np.array([1.0, 2.0]), np.array([1.0, 2.0, 3.0, 4.0])) == 0.5
    assert kolmogorov_smirnov(np.array([1.0]), np.array([2.0])) == 1.0
    assert total_variation(["a", "a"], ["a", "b"]) == 0.5
    assert total_variation(["a"], ["b"]) == 1.0


def test_each_policy_has_its_cost_in_rollouts() -> None:
    groups = [GroupSizes(7, 1), GroupSizes(6, 2), GroupSizes(1, 7), GroupSizes(0, 8)]
    found = policy_costs(groups, complete_rollouts=68, least=2)

    assert {one.policy: one.lost for one in found} == {"drop": 32, "shrink": 19, "refill": 18}
    assert [one.share for one in found] == [0.32, 0.19, 0.18]
    assert [one.share for one in policy_costs([], complete_rollouts=0, least=2)] == [0.0] * 3


def test_empty_samples_have_no_distance() -> None:
    assert kolmogorov_smirnov(np.array([np.nan]), np.array([1.0])) is None
    assert total_variation([], ["a"]) is None
    assert summary(np.array([])).mean is None


@given(values, values)
def test_the_distance_of_distributions_is_the_largest_gap_anywhere(
    one: list[float], other: list[float]
) -> None:
    distance = kolmogorov_smirnov(np.array(one), np.array(other))

    gaps = [
        abs(sum(v <= x for v in one) / len(one) - sum(v <= x for v in other) / len(other))
        for x in [*one, *other]
    ]
    assert distance == pytest.approx(max(gaps))
    assert distance == kolmogorov_smirnov(np.array(other), np.array(one))


@given(names, names)
def test_the_distance_of_shares_is_symmetric_and_within_0_and_1(
    one: list[str], other: list[str]
) -> None:
    distance = total_variation(one, other)
    assert distance is not None
    assert 0 <= distance <= 1
    assert distance == pytest.approx(total_variation(other, one))
    assert total_variation(one, one) == 0


def test_long_episodes_that_are_dropped_bias_training_towards_short_ones() -> None:
    message = sentence(items([230.0] * 40), items([100.0] * 40), unit="groups")
    assert message == (
        "dropped groups are 2.3× longer than served ones: training is biased towards short groups"
    )


def test_scores_and_environments_are_named() -> None:
    message = sentence(
        items([1.0] * 40, score=0.1, environment="code"), items([1.0] * 40), unit="groups"
    )
    assert message == (
        "dropped groups score lower (0.1 against 0.5); "
        "code makes up 100 % of dropped groups and 0 % of served groups"
    )


def test_few_items_and_chance_show_no_bias() -> None:
    assert sentence(items([9.0] * 5), items([1.0] * 500), unit="groups") == (
        "too few groups to compare: 5 dropped, 500 served"
    )
    chance = np.random.default_rng(1)
    alike = [items(list(chance.normal(size=60))) for _ in range(2)]
    nothing = "no difference found between dropped and served groups"
    assert sentence(*alike, unit="groups") == nothing
    assert chance_distance(60, 60) == pytest.approx(0.2976, abs=1e-3)
