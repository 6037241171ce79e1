"""Differences of the default strategy from Marin's, and its invariants."""

import random
import time
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollouts.lessons.rules.lessons import (
    InvalidCurriculum,
    Lesson,
    LessonStatus,
    Progress,
    Requirement,
)
from rollouts.lessons.rules.rolldeck import RolldeckStrategy, is_plateaued, with_floor
from rollouts.lessons.rules.strategy import changes, draw, probabilities
from tests.unit.rollouts.lessons.lesson_states import moves, over_time, performance, progress

DEFAULT = RolldeckStrategy()
ONE = {"a": Lesson(stop_success=0.9)}
CHAIN = {"a": Lesson(), "b": Lesson(requires=(Requirement(lesson="a"),))}
LOCKED = progress(status=LessonStatus.LOCKED)


def evaluated(successes: int, samples: int, **fields: object) -> Progress:
    rewards = [1.0] * successes + [0.0] * (samples - successes)
    return progress(evaluation=performance(rewards), **fields)  # type: ignore[arg-type]


def why(all_progress: dict[str, Progress]) -> str:
    """Return the reason of the only status change."""
    (change,) = changes(DEFAULT, CHAIN, all_progress)
    return change.reason


def test_a_lesson_graduates_when_its_evaluation_is_significant() -> None:
    assert moves(DEFAULT, ONE, {"a": evaluated(62, 64)}) == {"a": "graduated"}
    # 0.9375 is above the threshold; its lower bound is not.
    assert moves(DEFAULT, ONE, {"a": evaluated(60, 64)}) == {}
    assert moves(DEFAULT, ONE, {"a": evaluated(9, 9)}) == {}


def test_training_alone_graduates_no_lesson() -> None:
    assert moves(DEFAULT, ONE, {"a": progress(training=performance([1.0] * 1000))}) == {}


def test_only_the_newest_evaluation_counts() -> None:
    well, badly = ([1.0] * 64, 1), ([0.0] * 64, 2)

    assert moves(DEFAULT, ONE, {"a": progress(evaluation=over_time(well, badly))}) == {}
    learnt = {"a": progress(evaluation=over_time(([0.0] * 64, 1), ([1.0] * 64, 2)))}
    assert moves(DEFAULT, ONE, learnt) == {"a": "graduated"}


def test_a_threshold_of_1_is_refused_and_so_is_one_that_no_evaluation_shows() -> None:
    with pytest.raises(InvalidCurriculum, match="no sample proves 1"):
        DEFAULT.check({"a": Lesson(stop_success=1.0)})
    with pytest.raises(InvalidCurriculum, match="at least 25 are needed") as refusal:
        RolldeckStrategy(evaluation_samples=16).check(ONE)
    assert refusal.value.field == "lessons.a.stop_success"
    RolldeckStrategy(evaluation_samples=25).check(ONE)


def test_a_graduated_lesson_that_got_worse_is_active_again() -> None:
    learnt = {"status": LessonStatus.GRADUATED}

    assert moves(DEFAULT, ONE, {"a": evaluated(50, 64, **learnt)}) == {"a": "active"}
    assert moves(DEFAULT, ONE, {"a": evaluated(56, 64, **learnt)}) == {}
    assert moves(RolldeckStrategy(reactivates=False), ONE, {"a": evaluated(0, 64, **learnt)}) == {}


@given(samples=st.integers(1, 300), share=st.floats(0, 1))
def test_no_evaluation_both_graduates_and_reactivates(samples: int, share: float) -> None:
    successes = round(share * samples)
    up = moves(DEFAULT, ONE, {"a": evaluated(successes, samples)})
    down = moves(DEFAULT, ONE, {"a": evaluated(successes, samples, status=LessonStatus.GRADUATED)})
    assert not (up and down)


def test_failure_unlocks_nothing() -> None:
    all_progress = {"a": progress(training=performance(*[[0.0] * 8] * 50)), "b": LOCKED}

    assert moves(DEFAULT, CHAIN, all_progress) == {}


def test_a_plateau_of_success_unlocks() -> None:
    coin = random.Random(3)
    batches = [[float(coin.random() < 0.7) for _ in range(8)] for _ in range(20)]
    all_progress = {"a": progress(training=performance(*batches)), "b": LOCKED}

    assert moves(DEFAULT, CHAIN, all_progress) == {"b": "active"}
    assert why(all_progress) == "a stopped improving at 0.79"


def test_dependents_of_a_graduated_lesson_unlock() -> None:
    # Without training, the success from training alone is only the prior.
    all_progress = {"a": evaluated(62, 64, status=LessonStatus.GRADUATED), "b": LOCKED}

    assert moves(DEFAULT, CHAIN, all_progress) == {"b": "active"}
    assert why(all_progress) == "a has graduated"


def test_an_improving_lesson_unlocks_nothing() -> None:
    batches = [[1.0] * n + [0.0] * (8 - n) for n in (1, 3, 5, 6, 7, 8, 8)]
    training = performance(*batches)

    assert DEFAULT.success(CHAIN["a"], progress(training=training)) > 0.5
    assert moves(DEFAULT, CHAIN, {"a": progress(training=training), "b": LOCKED}) == {}


@pytest.mark.parametrize("rate", [0.5, 0.8, 0.9, 0.95, 1.0])
def test_rewards_of_0_and_1_plateau_when_they_are_steady(rate: float) -> None:
    random = np.random.default_rng(0)
    lesson = Lesson(plateau_window=64)
    plateaus = [
        is_plateaued(performance(*(random.random((8, 8)) < rate).astype(float).tolist()), lesson)
        for _ in range(400)
    ]
    assert np.mean(plateaus) >= 0.9


@pytest.mark.parametrize("gain", [0.4, 0.6])
def test_a_rising_rate_is_not_a_plateau(gain: float) -> None:
    random = np.random.default_rng(0)
    lesson = Lesson(plateau_window=64)
    rates = 0.3 + gain * (np.arange(8)[:, None] >= 4)
    plateaus = [
        is_plateaued(performance(*(random.random((8, 8)) < rates).astype(float).tolist()), lesson)
        for _ in range(400)
    ]
    assert np.mean(plateaus) <= 0.2


@given(st.permutations([1.0] * 16 + [0.0] * 16))
def test_the_order_inside_a_batch_does_not_count(batch: list[float]) -> None:
    there = progress(training=performance(sorted(batch)))

    assert DEFAULT.success(Lesson(), progress(training=performance(batch))) == DEFAULT.success(
        Lesson(), there
    )


def test_every_share_is_at_least_the_floor() -> None:
    shares = with_floor({"good": 0.25} | {str(n): 0.0 for n in range(19)}, floor=0.04)

    assert shares["good"] == pytest.approx(1 - 19 * 0.04)
    assert {share for name, share in shares.items() if name != "good"} == {0.04}


@given(
    st.dictionaries(st.text(max_size=4), st.floats(0, 1), min_size=1, max_size=30),
    st.floats(0, 0.5),
)
def test_shares_sum_to_1_keep_the_floor_and_the_proportions(
    weights: dict[str, float], floor: float
) -> None:
    shares = with_floor(weights, floor=floor)
    least = min(floor, 1 / len(weights))

    assert sum(shares.values()) == pytest.approx(1)
    assert min(shares.values()) >= least - 1e-9
    above = [name for name in weights if shares[name] > least + 1e-6]
    for one in above:
        for other in above:
            assert shares[one] * weights[other] == pytest.approx(
                shares[other] * weights[one], abs=1e-6
            )


def test_an_impossible_floor_is_refused() -> None:
    lessons = {str(n): Lesson() for n in range(21)}

    with pytest.raises(InvalidCurriculum, match=r"0\.05 for each of 21 lessons"):
        DEFAULT.check(lessons)


def test_new_lessons_of_medium_success_are_sampled_most() -> None:
    lessons = {name: Lesson() for name in ("new", "half", "easy", "hopeless")}
    all_progress = {
        "new": progress(),
        "half": progress(training=performance(*[[1.0, 0.0] * 4] * 50)),
        "easy": progress(training=performance(*[[1.0] * 8] * 50)),
        "hopeless": progress(training=performance(*[[0.0] * 8] * 50)),
    }

    shares = probabilities(DEFAULT, lessons, all_progress)

    assert sorted(shares, key=shares.__getitem__, reverse=True)[:2] == ["new", "half"]
    assert shares["easy"] == shares["hopeless"] == 0.05


def test_every_transition_has_a_reason() -> None:
    [change] = changes(DEFAULT, ONE, {"a": evaluated(64, 64)})

    assert change.reason == "evaluation succeeded 64 times of 64: at least 0.959 ≥ 0.9"
    assert change.figures["lower_bound"] == pytest.approx(0.9594, abs=1e-4)


def test_a_batch_affects_its_lesson_and_dependents_only() -> None:
    lessons = CHAIN | {"c": Lesson(requires=(Requirement(lesson="b"),)), "d": Lesson()}
    all_progress = {
        "a": evaluated(64, 64),
        "b": LOCKED,
        "c": LOCKED,
        "d": evaluated(64, 64),
    }

    moved = changes(DEFAULT, lessons, all_progress, touched=["a"])

    assert [change.lesson for change in moved] == ["a"]
    all_progress["a"] = all_progress["a"].moved(LessonStatus.GRADUATED)
    again = changes(DEFAULT, lessons, all_progress, touched=["a"])
    assert [change.lesson for change in again] == ["b"]


def test_among_a_thousand_lessons_a_batch_and_a_draw_take_milliseconds() -> None:
    before = [(), *[(Requirement(lesson=str(n)),) for n in range(999)]]
    lessons = {str(n): Lesson(requires=before[n]) for n in range(1000)}
    strategy = RolldeckStrategy(minimum_sample_probability=0.0005)
    trained = performance(*[[1.0, 0.0] * 4] * 100)
    all_progress = {name: evaluated(30, 64, training=trained) for name in lessons}
    weights = {name: strategy.weight(lessons[name], all_progress[name]) for name in lessons}

    def fastest(work: Callable[[], object]) -> float:
        taken = []
        for _ in range(20):
            began = time.process_time()
            work()
            taken.append(time.process_time() - began)
        return 1000 * min(taken)

    assert fastest(lambda: changes(strategy, lessons, all_progress, touched=["7"])) < 5
    assert fastest(lambda: draw(strategy.shares(weights), 0.5)) < 1
