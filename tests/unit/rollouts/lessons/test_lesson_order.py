"""Lessons are ordered topologically by their requirements."""

from hypothesis import given
from hypothesis import strategies as st

from rollouts.lessons.rules.lessons import Lesson, Requirement, in_order


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
