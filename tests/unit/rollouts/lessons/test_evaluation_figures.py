"""An evaluation reports the success rate of a lesson with its confidence interval."""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollouts.lessons.rules.evaluation import (
    as_outcome,
    figures_of,
    has_regressed,
    has_stalled,
    pass_at_k,
    pass_intervals,
    samples_to_show,
    two_sided_p,
    wilson,
)
from rollouts.lessons.rules.lessons import Counts

P_VALUES = [
    (0.0, 1, 1.0),
    (1.0, 1, 0.5),
    (2.5, 2, 0.12961172022151082),
    (0.3, 3, 0.783763292039919),
    (1.96, 48, 0.05581515145850319),
    (4.2, 49, 0.00011230229979240219),
    (0.01, 998, 0.9920232859288025),
    (3.3, 999, 0.001001031263055914),
]


def test_one_answer_each_is_a_plain_rate_with_its_interval() -> None:
    successes = [True] * 90 + [False] * 10

    figures = figures_of([float(success) for success in successes], successes, generations=1)

    assert figures.success.estimate == 0.9
    assert figures.success.low == pytest.approx(0.8396, abs=1e-3)
    assert figures.success.high == pytest.approx(0.9393, abs=1e-3)
    assert figures.pass_at == {1: pytest.approx(0.9)}
    assert (figures.problems, figures.successes) == (100, 90)


def test_more_answers_to_the_same_problems_do_not_narrow_the_interval() -> None:
    once = figures_of([1.0, 0.0] * 50, [True, False] * 50, generations=1)
    alike = figures_of([1.0] * 4 + [0.0] * 4, [True] * 4 + [False] * 4, generations=4)
    often = figures_of(([1.0] * 4 + [0.0] * 4) * 50, ([True] * 4 + [False] * 4) * 50, generations=4)

    assert often.success == once.success
    assert alike.problems == 2
    assert often.reward.low == pytest.approx(once.reward.low)


def test_the_k_of_pass_at_k_doubles_up_to_all_answers() -> None:
    figures = figures_of([0.0] * 6, [False, True, False, False, False, False], generations=6)

    assert list(figures.pass_at) == [1, 2, 4, 6]
    assert figures.pass_at[1] == pytest.approx(1 / 6)
    assert figures.pass_at[6] == 1.0


@given(st.lists(st.booleans(), min_size=1, max_size=7), st.data())
def test_pass_at_k_is_the_share_of_choices_that_hold_a_success(
    answers: list[bool], data: st.DataObject
) -> None:
    k = data.draw(st.integers(1, len(answers)))
    choices = list(combinations(answers, k))

    rates = pass_at_k(np.asarray([sum(answers)]), k, generations=len(answers))

    assert rates == pytest.approx(sum(any(choice) for choice in choices) / len(choices))


def test_an_outcome_has_one_reward_per_problem() -> None:
    outcome = as_outcome([1.0, 0.0, 1.0, 1.0], [True, False, True, True], generations=2, step=3)

    assert outcome.rewards == (0.5, 1.0)
    assert outcome.successes == 1
    assert outcome.step == 3


def test_a_regression_is_a_fall_that_chance_does_not_explain() -> None:
    then = Counts(1, 245, 256)

    assert has_regressed(at_graduation=then, now=Counts(2, 200, 256))
    assert not has_regressed(at_graduation=then, now=Counts(2, 240, 256))
    assert not has_regressed(at_graduation=Counts(-1, 0, 0), now=Counts(2, 0, 256))


@pytest.mark.parametrize(
    ("successes", "stalled"),
    [
        ([0, 0, 0, 0], True),
        ([32, 32, 32, 32], True),
        ([16, 17, 16, 17], True),
        ([30, 28, 10, 12], True),
        # Chance explains an increase of a tenth over 64 problems, but not of a third.
        ([16, 16, 19, 19], True),
        ([10, 12, 22, 20], False),
    ],
)
def test_a_lesson_stalls_where_chance_explains_its_gain(
    successes: list[int], stalled: bool
) -> None:
    results = [Counts(step, count, 32) for step, count in enumerate(successes)]

    assert has_stalled(results) is stalled


@given(problems=st.lists(st.integers(0, 4), min_size=1, max_size=60))
def test_pass_at_k_is_within_its_bounds_and_rises_with_k(problems: list[int]) -> None:
    successes = [place < right for right in problems for place in range(4)]

    intervals = pass_intervals(
        figures_of([float(success) for success in successes], successes, generations=4)
    )

    assert list(intervals) == [1, 2, 4]
    for interval in intervals.values():
        assert 0 <= interval.low <= interval.estimate + 1e-9
        assert interval.estimate - 1e-9 <= interval.high <= 1
    assert intervals[1].estimate <= intervals[2].estimate + 1e-9
    assert intervals[2].estimate <= intervals[4].estimate + 1e-9


def test_pass_at_1_of_one_answer_each_has_the_bounds_of_success() -> None:
    successes = [True] * 9 + [False] * 91
    figures = figures_of([float(success) for success in successes], successes, generations=1)

    [(k, intervals)] = pass_intervals(figures).items()
    assert k == 1
    assert intervals.estimate == pytest.approx(figures.success.estimate)
    assert (intervals.low, intervals.high) == (figures.success.low, figures.success.high)


def test_the_bounds_of_pass_at_k_have_their_coverage() -> None:
    random = np.random.default_rng(5)
    skills = random.beta(0.4, 0.6, size=100_000)
    truth = float(np.mean(1 - (1 - skills) ** 4))
    held = 0
    for _ in range(200):
        right = random.binomial(8, random.choice(skills, size=64))
        successes = [place < successes for successes in right for place in range(8)]
        rewards = [float(success) for success in successes]
        bounds = pass_intervals(figures_of(rewards, successes, generations=8))[4]
        held += bounds.low <= truth <= bounds.high

    # Each bound is exceeded with at most 5 % probability.
    assert held >= 180


@pytest.mark.parametrize(("t", "freedom", "p"), P_VALUES)
def test_p_values_are_those_of_the_t_distribution(t: float, freedom: int, p: float) -> None:
    assert two_sided_p(t, freedom=freedom) == pytest.approx(p, rel=1e-9)
    assert two_sided_p(-t, freedom=freedom) == two_sided_p(t, freedom=freedom)


def test_a_p_value_too_small_for_a_float_is_nearly_0() -> None:
    assert two_sided_p(12.0, freedom=198) == pytest.approx(0, abs=1e-12)


def test_wilson_bounds_equal_published_values() -> None:
    assert wilson(57, 64) == pytest.approx((0.8099585744285638, 0.9396043166137433), rel=1e-9)
    assert wilson(64, 64) == pytest.approx((0.959440500534153, 1.0), rel=1e-9)
    assert wilson(0, 0) == (0.0, 1.0)


@given(samples=st.integers(1, 2000), share=st.floats(0, 1))
def test_wilson_bounds_enclose_the_rate(samples: int, share: float) -> None:
    successes = round(share * samples)
    lower, upper = wilson(successes, samples)
    assert 0 <= lower <= successes / samples + 1e-12
    assert successes / samples - 1e-12 <= upper <= 1


@given(rate=st.floats(0.01, 0.995))
def test_as_many_samples_as_needed_show_a_rate_and_fewer_do_not(rate: float) -> None:
    needed = samples_to_show(rate)
    assert wilson(needed, needed)[0] >= rate - 1e-9
    assert needed == 1 or wilson(needed - 1, needed - 1)[0] < rate + 1e-9
    assert not math.isinf(needed)
