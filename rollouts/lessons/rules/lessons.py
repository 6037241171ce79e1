"""Lessons of a curriculum: their order, requirements and goals."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from web.rules.errors import Conflict, FieldError


class LessonStatus(StrEnum):
    """Status of a lesson."""

    LOCKED = "locked"
    """Not sampled yet."""
    ACTIVE = "active"
    GRADUATED = "graduated"
    """TrainingTargets: no longer sampled, still evaluated."""


class InvalidCurriculum(FieldError, Conflict):
    """Lessons contradict each other or the strategy; `field` is the dotted path."""

    code = "curriculum_unusable"
    title = "The curriculum cannot be used"


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """A lesson that must be learned first, and the success rate required."""

    lesson: str
    min_success: float = 0.0
    """Success rate in [0, 1]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """One lesson; its name is its key in the curriculum."""

    requires: tuple[Requirement, ...] = ()
    stop_success: float = 0.9
    """Success rate in [0, 1] from which the lesson counts as learned."""
    plateau_window: int = 50
    """Number of samples in which a plateau is detected."""
    plateau_threshold: float = 0.01
    """Limit of a plateau: relative slope (marin), or gained success rate (rolldeck)."""


def check_lessons(lessons: Mapping[str, Lesson]) -> None:
    """Check that all requirements exist and contain no cycle.

    Raises:
        InvalidCurriculum: With the lesson's path.
    """
    if not lessons:
        raise InvalidCurriculum("lessons", "at least one lesson is required")
    for name, lesson in lessons.items():
        for place, requirement in enumerate(lesson.requires):
            if requirement.lesson not in lessons:
                raise InvalidCurriculum(
                    f"lessons.{name}.requires.{place}.lesson",
                    f"lesson {requirement.lesson!r} does not exist",
                )
    circle = _circle(lessons)
    if circle:
        raise InvalidCurriculum(
            f"lessons.{circle[0]}.requires", f"requirements form a cycle:  {' → '.join(circle)}"
        )


def in_order(lessons: Mapping[str, Lesson]) -> list[str]:
    """Return the lessons in topological order, otherwise in the given order.

    Args:
        lessons: Lessons without a cycle.
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
    """Return the lessons of a cycle, the first one also last; empty without a cycle."""
    done: set[str] = set()
    for start in lessons:
        path: list[str] = []
        # Each entry is a depth and a lesson. An explicit stack, because deep chains could exceed
        # Python's recursion limit.
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
