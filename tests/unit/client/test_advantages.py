"""Advantages of sequences relative to their group."""

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from rolldeck.training.advantages import (
    EPSILON,
    RULES,
    Rule,
    dr_grpo,
    grpo,
    has_zero_variance,
    of_batch,
    rloo,
    token_weights,
    with_variance,
)

Scores = NDArray[np.float64]
scores = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=64).map(np.array)
alike = st.builds(
    lambda score, size: np.full(size, score), st.floats(-1e6, 1e6), st.integers(2, 64)
)


def tolerance(values: Scores) -> float:
    return 1e-12 * max(1.0, float(np.abs(values).max())) * len(values)


@given(values=scores)
def test_rloo_is_the_score_less_the_mean_of_the_others(values: Scores) -> None:
    others = [np.delete(values, place).mean() for place in range(len(values))]

    assert rloo(values) == pytest.approx(values - others, abs=tolerance(values))


@given(values=scores)
def test_rloo_sums_to_zero(values: Scores) -> None:
    assert abs(rloo(values).sum()) <= tolerance(values)


@given(values=scores)
def test_grpo_has_mean_zero_and_the_deviation_that_its_epsilon_leaves(values: Scores) -> None:
    assume(values.std() > 1e-9 * np.abs(values).max())

    advantages = grpo(values)

    assert abs(advantages.mean()) <= 1e-5
    assert advantages.std() == pytest.approx(values.std() / (values.std() + EPSILON), rel=1e-5)


def test_known_groups_have_known_advantages() -> None:
    values = np.array([1.0, 0.0, 0.0, 0.0], dtype=np.float32)

    assert rloo(values).tolist() == pytest.approx([1.0, -1 / 3, -1 / 3, -1 / 3])
    assert grpo(values) == pytest.approx(np.array([3, -1, -1, -1]) / np.sqrt(3), rel=1e-5)


@pytest.mark.parametrize("rule", RULES)
@given(values=alike)
def test_equal_scores_have_zero_advantages(rule: str, values: Scores) -> None:
    assert RULES[rule](values).tolist() == [0.0] * len(values)
    assert has_zero_variance(values)


@pytest.mark.parametrize("rule", RULES)
@given(values=scores)
def test_a_better_score_never_has_the_smaller_advantage(rule: str, values: Scores) -> None:
    order = np.argsort(values)

    assert (np.diff(RULES[rule](values)[order]) >= 0).all()


@pytest.mark.parametrize("rule", RULES)
@given(values=scores, shift=st.integers(-1000, 1000))
def test_a_constant_added_to_all_scores_changes_nothing(
    rule: str, values: Scores, shift: int
) -> None:
    whole = np.round(values)

    assert RULES[rule](whole + shift) == pytest.approx(RULES[rule](whole), abs=1e-4)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("values", [[], [3.0], [-0.5], [0.0]])
def test_the_advantage_of_a_sequence_without_others_is_its_score(
    rule: str, values: list[float]
) -> None:
    assert RULES[rule](np.array(values)).tolist() == values
    assert not has_zero_variance(np.array(values))


@pytest.mark.parametrize(
    ("scores", "exceptions", "advantages", "teaching"),
    [
        ([1, 0, 1, 0], {}, [0.5, -0.5, 0.5, -0.5], [1, 1, 1, 1]),
        ([1, 0, 1, 0], {"zero_advantage": [0, 1, 0, 0]}, [0.5, 0, 0.5, -0.5], [1, 1, 1, 1]),
        ([1, 0, 1, 0], {"zero_advantage": [1, 1, 1, 1]}, [0, 0, 0, 0], [0, 0, 0, 0]),
        ([1, 0, 9, 0], {"lengths": [3, 3, 0, 0]}, [0.5, -0.5, 0, 0], [1, 1, 0, 0]),
        ([2, 0, 0, 0], {"lengths": [3, 0, 0, 0]}, [2, 0, 0, 0], [1, 0, 0, 0]),
        ([0, 9, 9, 9], {"lengths": [3, 0, 0, 0]}, [0, 0, 0, 0], [0, 0, 0, 0]),
        ([7, 9, 8, 7], {"lengths": [0, 0, 0, 0]}, [0, 0, 0, 0], [0, 0, 0, 0]),
        (
            [1, 0, 9, 0],
            {"lengths": [3, 3, 0, 4], "zero_advantage": [1, 0, 0, 0]},
            [0, -1 / 3, 0, -1 / 3],
            [1, 1, 0, 1],
        ),
        ([1, 1, 9, 1], {"lengths": [3, 3, 0, 4]}, [0, 0, 0, 0], [0, 0, 0, 0]),
    ],
)
def test_sequences_may_be_left_out_of_the_comparison_or_teach_nothing(
    scores: list[float],
    exceptions: dict[str, list[int]],
    advantages: list[float],
    teaching: list[int],
) -> None:
    kinds = {"lengths": np.int32, "zero_advantage": np.bool_}
    own: dict[str, Any] = {name: np.array(row, kinds[name]) for name, row in exceptions.items()}
    groups = np.array([3, 3, 3, 3, 8])

    for name, row in own.items():
        own[name] = np.append(row, row.dtype.type(name == "lengths"))
    found = of_batch(np.array([*scores, 5.0]), groups, rule="dr_grpo", **own)

    assert found == pytest.approx([*advantages, 5.0])
    selected = with_variance(np.array([*scores, 5.0]), groups, **own)
    assert selected.tolist() == [*map(bool, teaching), True]


def test_huge_scores_are_distinguished_as_long_as_a_float_can() -> None:
    assert grpo(np.array([1e200, -1e200])).tolist() == [1.0, -1.0]
    assert not np.isfinite(rloo(np.array([1.7e308, -1.7e308]))).all()


@given(values=scores)
def test_dr_grpo_is_rloo_without_its_factor(values: Scores) -> None:
    factor = len(values) / (len(values) - 1)

    assert dr_grpo(values) * factor == pytest.approx(rloo(values), abs=tolerance(values))


@given(values=scores, factor=st.floats(0.5, 100))
def test_scores_in_another_unit_change_grpo_nothing_and_the_others_by_the_unit(
    values: Scores, factor: float
) -> None:
    assume(values.std() > 1)

    assert grpo(values * factor) == pytest.approx(grpo(values), abs=1e-4)
    for rule in (rloo, dr_grpo):
        assert rule(values * factor) == pytest.approx(
            rule(values) * factor, abs=factor * tolerance(values)
        )


@given(st.lists(scores, min_size=1, max_size=5), st.randoms(use_true_random=False))
def test_advantages_of_a_batch_depend_on_groups_and_not_on_their_order(
    groups: list[Scores], random: Random
) -> None:
    index = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    order = np.array(random.sample(range(len(index)), len(index)))
    flat = np.concatenate(groups)

    for rule in RULES:
        expected = np.concatenate([RULES[rule](group) for group in groups])
        advantages = of_batch(flat[order], index[order], rule=rule)
        np.testing.assert_allclose(advantages, expected[order], rtol=1e-6, atol=tolerance(flat))
        teaches = with_variance(flat[order], index[order])
        assert not advantages[~teaches].any()


def test_only_groups_whose_scores_differ_or_of_one_sequence_have_variance() -> None:
    scores = np.array([1, 1, 0, 1, 7, 0], dtype=np.float32)

    selected = with_variance(scores, np.array([0, 0, 2, 2, 5, 6]))

    assert selected.tolist() == [False, False, True, True, True, False]


@given(lengths=st.lists(st.integers(1, 20), min_size=1, max_size=8))
def test_under_grpo_every_sequence_counts_the_same_and_all_together_one(
    lengths: list[int],
) -> None:
    trained = np.arange(25) < np.array(lengths)[:, None]

    weights = token_weights(trained, rule="grpo")

    assert weights.sum(axis=1) == pytest.approx(np.full(len(lengths), 1 / len(lengths)))
    assert not weights[~trained].any()


@pytest.mark.parametrize("rule", ["rloo", "dr_grpo"])
def test_under_the_others_every_token_counts_the_same(rule: Rule) -> None:
    trained = np.array([[True, False, False], [True, True, True]])

    assert token_weights(trained, rule=rule, longest_tokens=4)[trained].tolist() == [1 / 8] * 4
    assert token_weights(trained, rule=rule)[trained].tolist() == [1 / 6] * 4


def test_a_sequence_without_trained_tokens_has_no_weight() -> None:
    for rule in RULES:
        weights = token_weights(np.zeros((2, 3), dtype=np.bool_), rule=rule)
        assert weights.tolist() == np.zeros((2, 3)).tolist()
