"""Lessons of a curriculum: their order, statuses and draws."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollouts.lessons.rules.lessons import (
    BATCHES_KEPT,
    REWARDS_KEPT,
    InvalidCurriculum,
    Lesson,
    Performance,
    Requirement,
    check_lessons,
    draw_point,
    evaluation_seed,
    in_order,
    training_seed,
)
from rollouts.lessons.rules.strategy import concentration, draw, initial_progress
from tests.unit.rollouts.lessons.lesson_states import over_time, performance

SEEDS = st.integers(0, 2**31 - 1)
TASKS = st.integers(0, 2**62)


def after(*names: str) -> Lesson:
    return Lesson(requires=tuple(Requirement(lesson=name) for name in names))


def test_lessons_that_wait_for_each_other_are_named() -> None:
    lessons = {"a": after("c"), "b": after("a"), "c": after("b"), "d": Lesson()}

    with pytest.raises(InvalidCurriculum, match="a → c → b → a") as refusal:
        check_lessons(lessons)

    assert refusal.value.field == "lessons.a.requires"


def test_a_lesson_may_not_require_itself_or_an_unknown_lesson() -> None:
    with pytest.raises(InvalidCurriculum, match="a → a"):
        check_lessons({"a": after("a")})
    with pytest.raises(InvalidCurriculum, match="lesson 'z' does not exist") as refusal:
        check_lessons({"a": Lesson(), "b": after("a", "z")})
    assert refusal.value.field == "lessons.b.requires.1.lesson"
    with pytest.raises(InvalidCurriculum, match="at least one lesson is required"):
        check_lessons({})


@given(st.lists(st.integers(0, 20), max_size=40))
def test_lessons_that_require_earlier_ones_are_valid(links: list[int]) -> None:
    lessons = {"0": Lesson()}
    for place, link in enumerate(links, start=1):
        lessons[str(place)] = after(str(link % place), str((link * 7) % place))
    check_lessons(lessons)


def test_a_chain_of_thousands_is_checked_as_well() -> None:
    chain = {str(n): after(str(n - 1)) if n else Lesson() for n in range(5000)}
    check_lessons(chain)
    with pytest.raises(InvalidCurriculum):
        check_lessons(chain | {"0": after("4999")})


def test_lessons_without_requirements_start_active() -> None:
    begun = initial_progress({"a": Lesson(), "b": after("a")})

    assert {name: str(all_progress.status) for name, all_progress in begun.items()} == {
        "a": "active",
        "b": "locked",
    }


def test_a_performance_keeps_only_the_newest_results() -> None:
    made = performance(*[[float(n)] * 8 for n in range(500)])

    assert (made.samples, len(made.rewards), len(made.batches)) == (
        4000,
        REWARDS_KEPT,
        BATCHES_KEPT,
    )
    assert made.rewards[-1] == 499.0
    assert [batch.samples for batch in made.newest(20)] == [8, 8, 8]
    assert Performance().newest(20) == ()


def test_a_late_batch_of_an_older_step_counts_for_the_newest() -> None:
    later = over_time(([1.0], 5), ([0.0], 3))

    assert (later.last_step, later.at_last_step().samples) == (5, 2)


@given(
    st.dictionaries(st.text(max_size=3), st.floats(0.01, 1), min_size=1),
    st.floats(0, 1, exclude_max=True),
)
def test_every_point_selects_a_lesson(weights: dict[str, float], point: float) -> None:
    total = sum(weights.values())
    shares = {name: weight / total for name, weight in weights.items()}

    assert draw(shares, point) in shares
    assert draw(shares, 0.0) == next(iter(shares))


def test_draws_follow_the_shares() -> None:
    shares = {"a": 0.25, "b": 0.5, "c": 0.25}

    drawn = [draw(shares, (n + 0.5) / 100) for n in range(100)]

    assert [drawn.count(name) for name in shares] == [25, 50, 25]


def test_concentration_counts_lessons_of_equal_share() -> None:
    even = concentration(dict.fromkeys("abcd", 0.25))

    assert (even.effective_lessons, even.entropy) == pytest.approx((4.0, 1.3862943611198906))
    assert concentration({}).effective_lessons == 0


@given(SEEDS, TASKS)
def test_a_point_is_at_least_0_and_below_1(seed: int, task: int) -> None:
    assert 0 <= draw_point(seed=seed, task=task) < 1


def test_points_are_spread_evenly() -> None:
    points = [draw_point(seed=7, task=task) for task in range(10_000)]

    tenths = Counter(int(10 * point) for point in points)
    assert min(tenths.values()) > 850
    assert max(tenths.values()) < 1_150


@given(SEEDS, st.text(max_size=8), TASKS)
def test_seeds_fit_every_generator(seed: int, lesson: str, example: int) -> None:
    assert 0 <= training_seed(seed=seed, lesson=lesson, first_example=example) < 2**31
    assert 0 <= evaluation_seed(seed=seed, lesson=lesson) < 2**31


def test_tasks_lessons_and_modes_have_separate_seeds() -> None:
    seeds = {
        *(training_seed(seed=1, lesson="a", first_example=first) for first in range(100)),
        *(training_seed(seed=1, lesson="b", first_example=first) for first in range(100)),
        *(training_seed(seed=2, lesson="a", first_example=first) for first in range(100)),
        evaluation_seed(seed=1, lesson="a"),
        evaluation_seed(seed=1, lesson="b"),
    }

    assert len(seeds) == 302


def lesson(*names: str) -> Lesson:
    return Lesson(requires=tuple(Requirement(lesson=name) for name in names))


def test_lessons_without_requirements_keep_their_order() -> None:
    assert in_order({"b": lesson(), "a": lesson(), "c": lesson()}) == ["b", "a", "c"]


def test_a_lesson_follows_its_requirements() -> None:
    lessons = {"last": lesson("middle", "first"), "middle": lesson("first"), "first": lesson()}

    assert in_order(lessons) == ["first", "middle", "last"]


def test_a_long_chain_does_not_exhaust_the_stack() -> None:
    names = [str(place) for place in range(5_000)]
    lessons = {name: lesson(names[place + 1]) for place, name in enumerate(names[:-1])}
    lessons[names[-1]] = lesson()

    assert in_order(lessons) == names[::-1]


@given(st.lists(st.sets(st.integers(0, 30), max_size=4), min_size=1, max_size=30), st.randoms())
def test_every_lesson_occurs_once_after_its_requirements(
    required: list[set[int]], random: object
) -> None:
    names = list(range(len(required)))
    random.shuffle(names)  # type: ignore[attr-defined]
    # Only lower numbers are required, so there are no cycles.
    lessons = {
        str(name): lesson(
            *(str(requirement) for requirement in required[name] if requirement < name)
        )
        for name in names
    }

    order = in_order(lessons)

    assert sorted(order) == sorted(lessons)
    for place, name in enumerate(order):
        assert {requirement.lesson for requirement in lessons[name].requires} <= set(order[:place])
