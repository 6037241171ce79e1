"""The default strategy: differences from Marin's, holds and rehearsal."""

import random
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollouts.curriculum.rules import LEAST_FACTOR, MOST_FACTOR, reweighted
from rollouts.lessons.rules.lessons import (
    InvalidCurriculum,
    Lesson,
    LessonStatus,
    Progress,
    Requirement,
)
from rollouts.lessons.rules.marin import MarinStrategy
from rollouts.lessons.rules.rolldeck import RolldeckStrategy, is_plateaued, with_floor
from rollouts.lessons.rules.strategy import decided, draw, draw_probabilities
from tests.unit.rollouts.lessons.lesson_states import (
    changes,
    moves,
    over_time,
    performance,
    probabilities,
    progress,
)

DEFAULT = RolldeckStrategy()
ONE = {"a": Lesson(stop_success=0.9)}
CHAIN = {"a": Lesson(), "b": Lesson(requires=(Requirement(lesson="a"),))}
LOCKED = progress(status=LessonStatus.LOCKED)
NAMES = "abcdef"
FACTORS = st.dictionaries(st.sampled_from(NAMES), st.floats(LEAST_FACTOR, MOST_FACTOR))
WEIGHTS = st.dictionaries(st.sampled_from(NAMES), st.floats(0, 1), min_size=1)
GOAL_CHAIN = {"a": Lesson(stop_success=0.8), "b": Lesson(requires=(Requirement(lesson="a"),))}
DRAWN = {"a": 0.25, "b": 0.25}
LEARNT = ["c", "d"]


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
    all_progress = {"a": evaluated(64, 64), "b": LOCKED, "c": LOCKED, "d": evaluated(64, 64)}

    moved = changes(DEFAULT, lessons, all_progress, touched=["a"])

    assert [change.lesson for change in moved] == ["a"]
    all_progress["a"] = replace(all_progress["a"], status=LessonStatus.GRADUATED)
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


def seen(status: LessonStatus, right: int, wrong: int) -> Progress:
    """Return a lesson that was trained and evaluated with these successes and failures."""
    batch = [1.0] * right + [0.0] * wrong
    return progress(status=status, training=performance(batch), evaluation=performance(batch))


STANDINGS = st.fixed_dictionaries(
    {
        name: st.builds(
            seen, st.sampled_from(LessonStatus), st.integers(0, 300), st.integers(0, 300)
        )
        for name in GOAL_CHAIN
    }
)


def test_a_doubled_factor_reduces_the_others_proportionally() -> None:
    shares = reweighted({"a": 0.5, "b": 0.25, "c": 0.25}, {"b": 2.0})

    assert shares == pytest.approx({"a": 0.4, "b": 0.4, "c": 0.2})


@given(weights=WEIGHTS, factors=FACTORS, learnt=st.sets(st.sampled_from("uvw")))
def test_probabilities_sum_to_one_for_all_factors(
    weights: dict[str, float], factors: dict[str, float], learnt: set[str]
) -> None:
    ruled = draw_probabilities(RolldeckStrategy(rehearsal=0.1), weights, graduated=sorted(learnt))

    shares = reweighted(ruled, factors)

    assert shares.keys() == ruled.keys()
    assert sum(shares.values()) == pytest.approx(1)
    assert all(0 <= share <= 1 for share in shares.values())
    whole = sum(ruled[name] * factors.get(name, 1.0) for name in ruled)
    for name, share in shares.items():
        assert share * whole == pytest.approx(ruled[name] * factors.get(name, 1.0))


@given(weights=WEIGHTS)
def test_without_factors_the_curriculum_draws_to_the_last_bit(weights: dict[str, float]) -> None:
    ruled = draw_probabilities(RolldeckStrategy(), weights, graduated=[])

    assert reweighted(ruled, {}) == ruled
    assert reweighted(ruled, dict.fromkeys(ruled, 1.0)) == ruled


@given(
    all_progress=STANDINGS,
    held=st.sets(st.sampled_from(sorted(GOAL_CHAIN))),
    strategy=st.sampled_from([RolldeckStrategy(), MarinStrategy()]),
)
def test_a_hold_overrides_every_rule_of_its_lesson_only(
    all_progress: dict[str, Progress], held: set[str], strategy: RolldeckStrategy | MarinStrategy
) -> None:
    moved = {
        change.lesson
        for change in decided(strategy, GOAL_CHAIN, GOAL_CHAIN, dict(all_progress), held=held)
    }
    ruled = {
        name for name in GOAL_CHAIN if strategy.decide(name, GOAL_CHAIN, all_progress) is not None
    }
    assert not moved & held
    assert ruled - held <= moved


def test_a_locked_hold_prevents_the_unlock_rule() -> None:
    all_progress = {
        "a": seen(LessonStatus.GRADUATED, 300, 0),
        "b": progress(status=LessonStatus.LOCKED),
    }
    assert decided(RolldeckStrategy(), "b", GOAL_CHAIN, all_progress, held={"b"}) == []

    [freed] = decided(RolldeckStrategy(), "b", GOAL_CHAIN, all_progress)
    assert freed.target is all_progress["b"].status is LessonStatus.ACTIVE


def test_an_unlock_rule_is_described_in_words() -> None:
    rule = RolldeckStrategy(min_success=0.5).unlock_rule(
        Lesson(requires=(Requirement(lesson="a", min_success=0.7), Requirement(lesson="b")))
    )

    assert rule == (
        "Unlocks when a has graduated, or has a success rate of at least 0.7 and stops improving; "
        "and b has graduated, or has a success rate of at least 0.5 and stops improving."
    )


def test_graduated_lessons_share_the_rehearsal_evenly() -> None:
    shares = draw_probabilities(RolldeckStrategy(rehearsal=0.2), DRAWN, graduated=LEARNT)

    assert shares == pytest.approx({"a": 0.4, "b": 0.4, "c": 0.1, "d": 0.1})


def test_without_rehearsal_graduated_lessons_are_not_drawn() -> None:
    assert draw_probabilities(RolldeckStrategy(), DRAWN, graduated=LEARNT) == {"a": 0.5, "b": 0.5}
    assert draw_probabilities(MarinStrategy(), DRAWN, graduated=LEARNT) == pytest.approx(
        {"a": 0.5, "b": 0.5}
    )


def test_before_the_first_graduation_there_is_no_rehearsal() -> None:
    assert draw_probabilities(RolldeckStrategy(rehearsal=0.5), DRAWN, graduated=[]) == {
        "a": 0.5,
        "b": 0.5,
    }


@pytest.mark.parametrize("strategy", [RolldeckStrategy(rehearsal=0.3), MarinStrategy()])
def test_after_all_graduations_lessons_are_drawn_equally(
    strategy: RolldeckStrategy | MarinStrategy,
) -> None:
    assert draw_probabilities(strategy, {}, graduated=LEARNT) == {"c": 0.5, "d": 0.5}


@given(
    weights=st.dictionaries(st.sampled_from("abcdef"), st.floats(0, 1), min_size=1),
    graduated=st.sets(st.sampled_from("uvwxyz")),
    rehearsal=st.floats(0, 0.99),
)
def test_shares_sum_to_one_and_the_active_keep_their_proportions(
    weights: dict[str, float], graduated: set[str], rehearsal: float
) -> None:
    strategy = RolldeckStrategy(rehearsal=rehearsal)
    alone = strategy.shares(weights)

    shares = draw_probabilities(strategy, weights, graduated=sorted(graduated))

    assert sum(shares.values()) == pytest.approx(1)
    active_share = 1 - rehearsal if graduated else 1.0
    for name, share in alone.items():
        assert shares[name] == pytest.approx(active_share * share)


def test_probabilities_include_the_rehearsal() -> None:
    all_progress = {
        "locked": progress(status=LessonStatus.LOCKED),
        "new": progress(training=performance([1.0, 0.0])),
        "learnt": progress(status=LessonStatus.GRADUATED),
    }

    shares = probabilities(
        RolldeckStrategy(rehearsal=0.25), dict.fromkeys(all_progress, Lesson()), all_progress
    )

    assert shares == pytest.approx({"new": 0.75, "learnt": 0.25})


@pytest.mark.parametrize("rehearsal", [-0.1, 1.0, float("nan")])
def test_a_rehearsal_share_of_one_is_refused(rehearsal: float) -> None:
    with pytest.raises(InvalidCurriculum) as refusal:
        RolldeckStrategy(rehearsal=rehearsal).check({"a": Lesson()})

    assert refusal.value.field == "rehearsal"
