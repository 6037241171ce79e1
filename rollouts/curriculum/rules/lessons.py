"""Say what lessons are as far as their order and their goals go."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class LessonStatus(StrEnum):
    """Where a lesson is."""

    LOCKED = "locked"
    """Not sampled yet."""
    ACTIVE = "active"
    GRADUATED = "graduated"
    """Learnt: not sampled any more, still evaluated."""


class InvalidCurriculum(ValueError):
    """Lessons contradict each other or the strategy; `field` is the dotted path."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """A lesson that must come first, and how well it must go."""

    lesson: str
    min_success: float = 0.0
    """Success rate in [0, 1]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """One lesson; its name is its key in the curriculum."""

    requires: tuple[Requirement, ...] = ()
    stop_success: float = 0.9
    """Success rate in [0, 1] from which on it counts as learnt."""
    plateau_window: int = 50
    """Samples that a plateau is looked for in."""
    plateau_threshold: float = 0.01
    """What counts as flat: relative slope (marin), or success rate gained (rolldeck)."""


def check_lessons(lessons: Mapping[str, Lesson]) -> None:
    """Refuse lessons that wait for each other, or for one that is not there.

    Raises:
        InvalidCurriculum: Naming the lesson.
    """
    if not lessons:
        raise InvalidCurriculum("lessons", "there is none")
    for name, lesson in lessons.items():
        for place, requirement in enumerate(lesson.requires):
            if requirement.lesson not in lessons:
                raise InvalidCurriculum(
                    f"lessons.{name}.requires.{place}.lesson",
                    f"there is no lesson {requirement.lesson!r}",
                )
    circle = _circle(lessons)
    if circle:
        raise InvalidCurriculum(
            f"lessons.{circle[0]}.requires", f"lessons wait for each other: {' → '.join(circle)}"
        )


def in_order(lessons: Mapping[str, Lesson]) -> list[str]:
    """Return the lessons so that each comes after all it requires, else as they are given.

    Args:
        lessons: Without a circle.
    """
    placed: dict[str, None] = {}
    for start in lessons:
        ahead = [start]
        while ahead:
            name = ahead[-1]
            missing = [one.lesson for one in lessons[name].requires if one.lesson not in placed]
            if missing:
                ahead += reversed(missing)
            else:
                placed.setdefault(ahead.pop())
    return list(placed)


def _circle(lessons: Mapping[str, Lesson]) -> list[str]:
    """Return lessons that form a circle, the first one also last; empty if there is none."""
    done: set[str] = set()
    for start in lessons:
        path: list[str] = []
        # Each entry: how deep it is, and the lesson; deep chains must not exhaust the stack.
        ahead = [(0, start)]
        while ahead:
            depth, name = ahead.pop()
            done.update(path[depth:])
            del path[depth:]
            if name in path:
                return [*path[path.index(name) :], name]
            if name in done:
                continue
            path.append(name)
            ahead += [(depth + 1, one.lesson) for one in lessons[name].requires]
        done.update(path)
    return []
