"""Graduated lessons keep a share of the draws if the strategy has a rehearsal share."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollouts.lessons.rules.lessons import InvalidCurriculum, Lesson, LessonStatus
from rollouts.lessons.rules.marin import MarinStrategy
from rollouts.lessons.rules.rolldeck import RolldeckStrategy
from rollouts.lessons.rules.strategy import draw_probabilities, probabilities
from tests.unit.rollouts.lessons.lesson_states import performance, progress

WEIGHTS = {"a": 0.25, "b": 0.25}
LEARNT = ["c", "d"]


def test_graduated_lessons_share_the_rehearsal_evenly() -> None:
    shares = draw_probabilities(RolldeckStrategy(rehearsal=0.2), WEIGHTS, graduated=LEARNT)

    assert shares == pytest.approx({"a": 0.4, "b": 0.4, "c": 0.1, "d": 0.1})


def test_without_rehearsal_graduated_lessons_are_not_drawn() -> None:
    assert draw_probabilities(RolldeckStrategy(), WEIGHTS, graduated=LEARNT) == {"a": 0.5, "b": 0.5}
    assert draw_probabilities(MarinStrategy(), WEIGHTS, graduated=LEARNT) == pytest.approx(
        {"a": 0.5, "b": 0.5}
    )


def test_before_the_first_graduation_there_is_no_rehearsal() -> None:
    assert draw_probabilities(RolldeckStrategy(rehearsal=0.5), WEIGHTS, graduated=[]) == {
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
