"""What a curriculum's strategy decides, and what is the same for all of them."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from rollouts.curriculum.rules.lessons import Lesson, LessonStatus
from rollouts.curriculum.rules.performance import Progress

Lessons = Mapping[str, Lesson]
Standing = Mapping[str, Progress]
"""Progress of every lesson, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A lesson that moves, and why: what a person reads in the run's history."""

    lesson: str
    source: LessonStatus
    target: LessonStatus
    reason: str
    figures: dict[str, float] = field(default_factory=dict)


class Strategy(Protocol):
    """Decides from what was measured; keeps nothing, so any worker may ask.

    One that has an attribute `rehearsal` above 0 gives that share of the draws to lessons that
    have graduated; see :func:`drawn`.

    Whoever coordinates keeps the weight of each active lesson beside its progress, so that a
    batch costs the lesson it belongs to and those that require it, and a draw one division a
    lesson::

        for change in changes(strategy, lessons, standing, touched=[name]):
            standing[change.lesson] = standing[change.lesson].moved(change.target)
        weights[name] = strategy.weight(lessons[name], standing[name])
        following = draw(drawn(strategy, weights, graduated=graduated), point)
    """

    def check(self, lessons: Lessons) -> None:
        """Refuse lessons that the strategy could never finish.

        Raises:
            InvalidCurriculum: Naming the field.
        """

    def success(self, lesson: Lesson, progress: Progress) -> float:
        """Return the success rate in [0, 1] that sampling goes by."""

    def weight(self, lesson: Lesson, progress: Progress) -> float:
        """Return how much an active lesson is worth sampling, 0 or more."""

    def shares(self, weights: Mapping[str, float]) -> dict[str, float]:
        """Return the probability of each active lesson by their weights; they sum to 1."""

    def judge(self, name: str, lessons: Lessons, standing: Standing) -> Change | None:
        """Return where a lesson moves now, if it does."""


class Concentration(NamedTuple):
    """How widely sampling is spread."""

    entropy: float
    """In nats."""
    effective_lessons: float
    """1 / Σp²: as many lessons of equal probability are as concentrated as these."""


def initial_progress(lessons: Lessons) -> dict[str, Progress]:
    """Return where lessons begin: active if they require nothing, else locked."""
    return {
        name: Progress(status=LessonStatus.LOCKED if lesson.requires else LessonStatus.ACTIVE)
        for name, lesson in lessons.items()
    }


def active(standing: Standing) -> list[str]:
    """Return the active lessons."""
    return [name for name, one in standing.items() if one.status is LessonStatus.ACTIVE]


def probabilities(strategy: Strategy, lessons: Lessons, standing: Standing) -> dict[str, float]:
    """Return the probability of each lesson that is drawn, from nothing but progress.

    Empty if no lesson is active.
    """
    weights = {name: strategy.weight(lessons[name], standing[name]) for name in active(standing)}
    learnt = [name for name, one in standing.items() if one.status is LessonStatus.GRADUATED]
    return drawn(strategy, weights, graduated=learnt) if weights else {}


def drawn(
    strategy: Strategy, weights: Mapping[str, float], *, graduated: Collection[str]
) -> dict[str, float]:
    """Return the probability of each lesson that is drawn; they sum to 1.

    Where none is active, graduated lessons are drawn alike: a trainer that goes on gets its
    groups, and evaluations notice if a lesson is forgotten.

    Args:
        strategy: Who decides; its `rehearsal`, if it has one, is the share of the draws that
            graduated lessons have, each as much as the others.
        weights: Of the active lessons.
        graduated: The others that may be drawn; at least one lesson in all.
    """
    rehearsal: float = getattr(strategy, "rehearsal", 0.0) if weights else 1.0
    if not graduated or not rehearsal:
        return strategy.shares(weights)
    fresh = strategy.shares(weights) if weights else {}
    shares = {name: (1 - rehearsal) * share for name, share in fresh.items()}
    return shares | dict.fromkeys(graduated, rehearsal / len(graduated))


def changes(
    strategy: Strategy,
    lessons: Lessons,
    standing: Standing,
    *,
    touched: Collection[str] | None = None,
) -> list[Change]:
    """Return the lessons that move now, in the order of `lessons`.

    Args:
        strategy: Who decides.
        lessons: All.
        standing: Of all.
        touched: Lessons whose progress has changed since the last call; None for all.
    """
    judged = (
        strategy.judge(name, lessons, standing)
        for name, lesson in lessons.items()
        if touched is None
        or name in touched
        or any(one.lesson in touched for one in lesson.requires)
    )
    return [change for change in judged if change is not None]


def is_complete(standing: Standing) -> bool:
    """Return whether every lesson has graduated."""
    return all(one.status is LessonStatus.GRADUATED for one in standing.values())


def draw(probabilities: Mapping[str, float], point: float) -> str:
    """Return the lesson at `point`, a number drawn evenly from [0, 1).

    Args:
        probabilities: Of at least one lesson, summing to 1.
        point: The same point and probabilities give the same lesson.
    """
    reached = 0.0
    for name, probability in probabilities.items():
        reached += probability
        if point < reached:
            return name
    # Rounding left the sum a little below 1.
    return max(probabilities, key=lambda name: probabilities[name])


def concentration(probabilities: Mapping[str, float]) -> Concentration:
    """Return how widely sampling is spread; zeros where nothing is sampled."""
    shares = [share for share in probabilities.values() if share > 0]
    if not shares:
        return Concentration(0.0, 0.0)
    entropy = -sum(share * math.log(share) for share in shares)
    return Concentration(entropy, 1 / sum(share * share for share in shares))
