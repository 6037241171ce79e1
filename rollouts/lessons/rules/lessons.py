"""Lessons of a curriculum: their order, requirements, goals, history and draws."""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from web.rules.errors import Conflict, FieldError

REWARDS_KEPT: Final = 1000
"""Same limit as Marin's."""
BATCHES_KEPT: Final = 256
_SEED_BITS: Final = 31


class LessonStatus(StrEnum):
    """Status of a lesson."""

    LOCKED = "locked"
    """Not sampled yet."""
    ACTIVE = "active"
    GRADUATED = "graduated"
    """No longer sampled, still evaluated."""


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
    """Return lessons without a cycle in topological order, otherwise in the given order."""
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


class Counts(NamedTuple):
    """Counts of one batch of a lesson."""

    step: int
    """Train step at which the policy of the batch was published."""
    successes: int
    samples: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Outcome of the rollouts of one batch."""

    step: int
    rewards: tuple[float, ...]
    """Finite reward of each episode, in the order of arrival."""
    successes: int
    """Number of successes, by the environment's own report or a threshold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Performance:
    """All outcomes of a lesson in one mode, the newest in detail."""

    samples: int = 0
    """Total number of episodes."""
    last_step: int = -1
    rewards: tuple[float, ...] = ()
    """The newest rewards, oldest first."""
    batches: tuple[Counts, ...] = ()
    """The newest batches, oldest first."""

    def add(self, outcome: Outcome) -> "Performance":
        """Return the performance with one more batch."""
        step = max(self.last_step, outcome.step)
        counts = Counts(step, outcome.successes, len(outcome.rewards))
        return Performance(
            samples=self.samples + len(outcome.rewards),
            last_step=step,
            rewards=(self.rewards + outcome.rewards)[-REWARDS_KEPT:],
            batches=(*self.batches, counts)[-BATCHES_KEPT:],
        )

    def newest(self, samples: int) -> tuple[Counts, ...]:
        """Return the newest batches that hold at least `samples` samples, or all batches."""
        held = 0
        for place in range(len(self.batches) - 1, -1, -1):
            held += self.batches[place].samples
            if held >= samples:
                return self.batches[place:]
        return self.batches

    def at_last_step(self) -> Counts:
        """Return the sum of the batches of the newest step."""
        same = [batch for batch in self.batches if batch.step == self.last_step]
        return total(same, step=self.last_step)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Status and history of one lesson."""

    status: LessonStatus
    training: Performance = field(default_factory=Performance)
    evaluation: Performance = field(default_factory=Performance)


def total(batches: list[Counts] | tuple[Counts, ...], *, step: int = -1) -> Counts:
    """Return the sum of some batches."""
    return Counts(
        step, sum(batch.successes for batch in batches), sum(batch.samples for batch in batches)
    )


def gain(before: Counts, after: Counts) -> tuple[float, float]:
    """Return the increase in success rate of the later samples, and its standard error.

    The standard error is that of the difference of two proportions with one variance.

    Args:
        before: Of at least one sample.
        after: Of at least one sample.
    """
    rate = (before.successes + after.successes) / (before.samples + after.samples)
    spread = math.sqrt(rate * (1 - rate) * (1 / before.samples + 1 / after.samples))
    return after.successes / after.samples - before.successes / before.samples, spread


def draw_point(*, seed: int, task: int) -> float:
    """Return a number in [0, 1) that selects the lesson of task number `task` of a run."""
    # A double has 53 bits, so none of these quotients is rounded up to 1.
    return (_number(f"lesson/{seed}/{task}") >> 11) / (1 << 53)


def training_seed(*, seed: int, lesson: str, first_example: int, attempt: int = 1) -> int:
    """Return the seed of the answers to the problems from `first_example` on, in [0, 2³¹).

    A further attempt has other answers, and its outcome another key.
    """
    again = f"/{attempt}" if attempt > 1 else ""
    return _number(f"train/{seed}/{lesson}/{first_example}{again}") >> (64 - _SEED_BITS)


def evaluation_seed(*, seed: int, lesson: str) -> int:
    """Return the constant seed of a lesson's evaluations, in [0, 2³¹)."""
    return _number(f"eval/{seed}/{lesson}") >> (64 - _SEED_BITS)


def _number(name: str) -> int:
    return int.from_bytes(hashlib.blake2s(name.encode(), digest_size=8).digest(), "big")
