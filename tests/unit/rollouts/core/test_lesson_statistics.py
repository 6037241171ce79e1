"""Figures of an evaluation: pass@k without bias, and intervals that mean something."""

import math
from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollouts.core.lesson_statistics import (
    LessonStatistics,
    describe_lesson,
    pass_at_k,
    powers,
)


@given(st.integers(1, 9), st.data())
def test_pass_at_k_is_the_share_of_all_choices_of_k_answers_that_hold_a_correct_one(
    answers: int, data: st.DataObject
) -> None:
    correct = data.draw(st.integers(0, answers))
    k = data.draw(st.integers(1, answers))
    chosen = list(combinations([True] * correct + [False] * (answers - correct), k))

    assert pass_at_k(answers, correct, k) == pytest.approx(sum(map(any, chosen)) / len(chosen))


def test_pass_at_1_is_the_success_rate_and_pass_at_k_whether_any_was_correct() -> None:
    successes = [True, False, False, False, False, False, True, True]
    found = describe_lesson([0.0] * 8, successes, generations=4)

    assert found.pass_at[1] == found.success.mean == 3 / 8
    assert found.pass_at[4] == 1.0
    assert list(found.pass_at) == [1, 2, 4]
    assert powers(1) == [1]
    assert powers(6) == [1, 2, 4, 6]


@given(
    st.integers(1, 4).flatmap(
        lambda k: st.tuples(
            st.just(k),
            st.lists(st.lists(st.booleans(), min_size=k, max_size=k), min_size=1, max_size=20),
        )
    )
)
def test_figures_stay_inside_their_bounds(drawn: tuple[int, list[list[bool]]]) -> None:
    generations, rows = drawn
    successes = [won for row in rows for won in row]
    found = describe_lesson([float(won) for won in successes], successes, generations=generations)

    assert 0 <= found.success.low <= found.success.mean <= found.success.high <= 1
    assert found.reward.mean == pytest.approx(found.success.mean)
    rising = list(found.pass_at.values())
    assert all(a <= b + 1e-12 for a, b in pairwise(rising))
    assert found.examples == len(rows)


def test_the_interval_of_single_answers_is_wilsons() -> None:
    # 8 of 10: (0.4902, 0.9433) by any table of Wilson's 95 % interval.
    found = describe_lesson([1.0] * 10, [True] * 8 + [False] * 2, generations=1)

    assert (round(found.success.low, 4), round(found.success.high, 4)) == (0.4902, 0.9433)


def test_answers_to_one_example_count_as_one_where_they_are_alike() -> None:
    alike = describe_lesson([1.0] * 4 + [0.0] * 4, [True] * 4 + [False] * 4, generations=4)

    # Two examples, 1 and 0: deviation √½ over √2, at 1.96.
    assert alike.reward.high - alike.reward.mean == pytest.approx(1.959964 * 0.5)
    assert (alike.success.low, alike.success.high) == (0.0, 1.0)


def test_nothing_gives_zeros_and_torn_columns_are_refused() -> None:
    assert describe_lesson([], [], generations=4) == LessonStatistics(generations=4)
    with pytest.raises(ValueError, match="3 rewards"):
        describe_lesson([1.0] * 3, [True] * 3, generations=2)
    assert math.isclose(describe_lesson([0.5], [True], generations=1).reward.low, 0.5)
