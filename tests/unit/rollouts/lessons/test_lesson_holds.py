"""Manual steering of a curriculum: holds persist, and probabilities sum to one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollouts.curriculum.rules import LEAST_FACTOR, MOST_FACTOR, decide, reweighted
from rollouts.lessons.rules.lessons import Lesson, LessonStatus, Progress, Requirement
from rollouts.lessons.rules.marin import MarinStrategy
from rollouts.lessons.rules.rolldeck import RolldeckStrategy
from rollouts.lessons.rules.strategy import draw_probabilities
from tests.unit.rollouts.lessons.lesson_states import performance, progress

NAMES = "abcdef"
FACTORS = st.dictionaries(st.sampled_from(NAMES), st.floats(LEAST_FACTOR, MOST_FACTOR))
WEIGHTS = st.dictionaries(st.sampled_from(NAMES), st.floats(0, 1), min_size=1)
CHAIN = {"a": Lesson(stop_success=0.8), "b": Lesson(requires=(Requirement(lesson="a"),))}


def seen(status: LessonStatus, right: int, wrong: int) -> Progress:
    """Return a lesson that was trained and evaluated with these successes and failures."""
    batch = [1.0] * right + [0.0] * wrong
    return progress(status=status, training=performance(batch), evaluation=performance(batch))


STANDINGS = st.fixed_dictionaries(
    {
        name: st.builds(
            seen, st.sampled_from(LessonStatus), st.integers(0, 300), st.integers(0, 300)
        )
        for name in CHAIN
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
    held=st.sets(st.sampled_from(sorted(CHAIN))),
    strategy=st.sampled_from([RolldeckStrategy(), MarinStrategy()]),
)
def test_a_hold_overrides_every_rule_of_its_lesson_only(
    all_progress: dict[str, Progress],
    held: set[str],
    strategy: RolldeckStrategy | MarinStrategy,
) -> None:
    for name in CHAIN:
        verdicts = decide(strategy, name, CHAIN, all_progress, held=held)
        assert verdicts == (None if name in held else strategy.decide(name, CHAIN, all_progress))


def test_a_locked_hold_prevents_the_unlock_rule() -> None:
    all_progress = {
        "a": seen(LessonStatus.GRADUATED, 300, 0),
        "b": progress(status=LessonStatus.LOCKED),
    }
    freed = decide(RolldeckStrategy(), "b", CHAIN, all_progress, held=())

    assert freed is not None
    assert freed.target is LessonStatus.ACTIVE
    assert decide(RolldeckStrategy(), "b", CHAIN, all_progress, held={"b"}) is None


def test_an_unlock_rule_is_described_in_words() -> None:
    rule = RolldeckStrategy(min_success=0.5).unlock_rule(
        Lesson(requires=(Requirement(lesson="a", min_success=0.7), Requirement(lesson="b")))
    )

    assert rule == (
        "Unlocks when a has graduated, or has a success rate of at least 0.7 and stops improving; "
        "and b has graduated, or has a success rate of at least 0.5 and stops improving."
    )
