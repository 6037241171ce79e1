"""Marin's formulas by value, and the flaws that the default strategy corrects."""

import math

import numpy as np
import pytest

from rollouts.lessons.rules.lessons import Lesson, LessonStatus, Progress, Requirement
from rollouts.lessons.rules.marin import MarinStrategy, is_plateaued, regression, smoothed_success
from tests.unit.rollouts.lessons.lesson_states import moves, performance, probabilities, progress

MARIN = MarinStrategy()
ONE = {"a": Lesson(stop_success=1.0)}


@pytest.mark.parametrize("n", [0, 1, 10, 20, 50])
def test_smoothed_success_of_equal_outcomes_has_a_closed_form(n: int) -> None:
    assert smoothed_success([1.0] * n) == pytest.approx(1 - 0.5 * 0.9**n, rel=1e-12)
    assert smoothed_success([0.0] * n) == pytest.approx(0.5 * 0.9**n, rel=1e-12)


def test_the_average_equals_that_of_marin_to_the_last_bit() -> None:
    expected = 0.5
    for success in (1.0, 0.0, 1.0, 1.0):
        expected = (1 - 0.1) * expected + 0.1 * success
    assert smoothed_success([0.01, 0.0, 7.0, 1.0]) == expected
    assert smoothed_success([0.01, 0.0, 7.0, 1.0]) == 0.5909500000000001


class Known(MarinStrategy):
    """A strategy with given success rates, to test the weights alone."""

    def success(self, lesson: Lesson, progress: Progress) -> float:  # noqa: ARG002
        return progress.training.rewards[0]


def weights(*rates: float, samples: int) -> list[float]:
    lessons = {str(place): Lesson() for place in range(len(rates))}
    all_progress = {
        str(place): progress(training=performance([rate] * samples))
        for place, rate in enumerate(rates)
    }
    return list(probabilities(Known(), lessons, all_progress).values())


def test_sampling_weights_equal_those_of_marin() -> None:
    rates = weights(0.5, 0.9, 0.1, samples=100)

    learnable = [1.0, 0.36, 0.36]
    w = [value * (1 + math.exp(-1)) for value in learnable]
    raised = [max(weight / (1 + sum(w)), 0.1) for weight in w]
    assert rates == pytest.approx([value / sum(raised) for value in raised], rel=1e-12)
    assert [round(weight, 3) for weight in rates] == [0.581, 0.209, 0.209]


def test_quirk_the_floor_is_renormalised_away() -> None:
    rates = weights(0.5, *[0.0] * 19, samples=1000)

    assert [round(weight, 3) for weight in rates[:2]] == [0.208, 0.042]
    assert sum(rates[1:]) == pytest.approx(0.79, abs=0.005)


def test_quirk_a_threshold_of_1_is_never_reached() -> None:
    always = performance([1.0] * 1000)

    assert smoothed_success(always.rewards) == 0.9999999999999994
    all_progress = {"a": progress(training=always, evaluation=always)}
    assert moves(MARIN, ONE, all_progress) == {}
    assert moves(MARIN, {"a": Lesson(stop_success=0.99)}, all_progress) == {"a": "graduated"}


def test_graduation_needs_an_evaluation_and_ignores_its_result() -> None:
    lessons = {"a": Lesson(stop_success=0.9)}
    always, never = performance([1.0] * 100), performance([0.0] * 100)

    assert moves(MARIN, lessons, {"a": progress(training=always)}) == {}
    all_progress = {"a": progress(training=always, evaluation=never)}
    assert moves(MARIN, lessons, all_progress) == {"a": "graduated"}


def test_quirk_total_failure_unlocks_dependents() -> None:
    lessons = {"a": Lesson(), "b": Lesson(requires=(Requirement(lesson="a"),))}
    all_progress = {
        "a": progress(training=performance([0.0] * 50)),
        "b": progress(status=LessonStatus.LOCKED),
    }

    assert moves(MARIN, lessons, all_progress) == {"b": "active"}


@pytest.mark.parametrize(
    ("rate", "share"), [(0.0, 1.0), (0.5, 0.0), (0.8, 0.0), (0.95, 0.08), (0.99, 0.6), (1.0, 1.0)]
)
def test_quirk_rewards_of_0_and_1_hardly_ever_plateau(rate: float, share: float) -> None:
    random = np.random.default_rng(0)
    drawn = [(random.random(50) < rate).astype(float).tolist() for _ in range(400)]
    plateaus = [is_plateaued(performance(rewards), window=50, threshold=0.01) for rewards in drawn]
    assert np.mean(plateaus) == pytest.approx(share, abs=0.06)


def test_quirk_the_order_inside_a_batch_counts() -> None:
    first = smoothed_success([1.0] * 16 + [0.0] * 16)
    last = smoothed_success([0.0] * 16 + [1.0] * 16)

    assert (round(first, 2), round(last, 2)) == (0.17, 0.83)


def test_fewer_rewards_than_the_window_are_no_plateau() -> None:
    assert not is_plateaued(performance([1.0] * 49), window=50, threshold=0.01)


# n, seeded draws, slope, p: scipy.stats.linregress.
REGRESSIONS = [
    ([1, 1, 1, 0], -0.3, 0.22540333075851665),
    ([0.2, 0.9, 0.4, 0.4, 0.7, 1.0], 0.09714285714285713, 0.2328510682564833),
    ([1.0, 1.0, 1.0], 0.0, math.nan),
]


@pytest.mark.parametrize(("values", "slope", "p"), REGRESSIONS)
def test_regression_equals_that_of_scipy(values: list[float], slope: float, p: float) -> None:
    fit = regression(np.asarray(values, dtype=np.float64))

    assert fit == pytest.approx((slope, p), rel=1e-9, nan_ok=True)
