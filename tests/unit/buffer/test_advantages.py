"""How much better than its group each sequence scored."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from buffer.core.advantages import EPSILON, RULES, grpo, has_zero_variance, rloo

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

    found = grpo(values)

    assert abs(found.mean()) <= 1e-5
    assert found.std() == pytest.approx(values.std() / (values.std() + EPSILON), rel=1e-5)


def test_known_groups_have_known_advantages() -> None:
    values = np.array([1.0, 0.0, 0.0, 0.0], dtype=np.float32)

    assert rloo(values).tolist() == pytest.approx([1.0, -1 / 3, -1 / 3, -1 / 3])
    assert grpo(values) == pytest.approx(np.array([3, -1, -1, -1]) / np.sqrt(3), rel=1e-5)


@pytest.mark.parametrize("rule", RULES)
@given(values=alike)
def test_scores_that_are_all_equal_have_exactly_no_advantage(rule: str, values: Scores) -> None:
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
@pytest.mark.parametrize("values", [[], [3.0]])
def test_a_sequence_without_others_has_no_advantage(rule: str, values: list[float]) -> None:
    assert RULES[rule](np.array(values)).tolist() == [0.0] * len(values)
    assert not has_zero_variance(np.array(values))


def test_huge_scores_are_told_apart_as_long_as_a_float_can() -> None:
    assert grpo(np.array([1e200, -1e200])).tolist() == [1.0, -1.0]
    assert not np.isfinite(rloo(np.array([1.7e308, -1.7e308]))).all()
