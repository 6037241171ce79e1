"""Protocol of curriculum strategies, and the logic common to all of them."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

from rollouts.lessons.rules.lessons import Lesson, LessonStatus, Progress

Lessons = Mapping[str, Lesson]
ProgressByLesson = Mapping[str, Progress]
"""Progress of every lesson, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A status change of a lesson, with its reason as text for the run's history."""

    lesson: str
    source: LessonStatus
    target: LessonStatus
    reason: str
    figures: dict[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.lesson}: {self.target}: {self.reason}"


class Strategy(Protocol):
    """Decides from measurements; has no state, so any worker may call it.

    A strategy with an attribute `rehearsal` above 0 gives that share of the draws to graduated
    lessons; see :func:`draw_probabilities`.

    The caller stores the weight of each active lesson with its progress. A batch then updates only
    its lesson and those that require it, and a draw costs one division per lesson::

        changes = [strategy.decide(one, lessons, all_progress) for one in (name, *dependents)]
        weights[name] = strategy.weight(lessons[name], all_progress[name])
        following = draw(draw_probabilities(strategy, weights, graduated=graduated), point)
    """

    def check(self, lessons: Lessons) -> None:
        """Check that the strategy can complete the lessons.

        Raises:
            InvalidCurriculum: With the path of the field.
        """

    def success(self, lesson: Lesson, progress: Progress) -> float:
        """Return the success rate in [0, 1] that sampling is based on."""

    def weight(self, lesson: Lesson, progress: Progress) -> float:
        """Return the sampling weight of an active lesson, 0 or more."""

    def shares(self, weights: Mapping[str, float]) -> dict[str, float]:
        """Return the probability of each active lesson by their weights; they sum to 1."""

    def decide(self, name: str, lessons: Lessons, all_progress: ProgressByLesson) -> Change | None:
        """Return the lesson's status change, if any."""


class Concentration(NamedTuple):
    """Measures of how widely sampling is spread."""

    entropy: float
    """In nats."""
    effective_lessons: float
    """1 / Σp²: the number of lessons of equal probability with the same concentration."""


def initial_progress(lessons: Lessons) -> dict[str, Progress]:
    """Return the initial status of the lessons: active if they require nothing, else locked."""
    return {
        name: Progress(status=LessonStatus.LOCKED if lesson.requires else LessonStatus.ACTIVE)
        for name, lesson in lessons.items()
    }


def decided(
    strategy: Strategy,
    names: Collection[str],
    lessons: Lessons,
    all_progress: dict[str, Progress],
    *,
    held: Collection[str] = (),
) -> list[Change]:
    """Change the status of lessons until none changes, each at most once; return the changes.

    Args:
        strategy: Strategy of the run.
        names: Lessons that may change.
        lessons: All lessons.
        all_progress: Progress of `names` and of their requirements; its statuses are changed.
        held: Lessons that keep their status.
    """
    made: dict[str, Change] = {}
    while True:
        found = (
            strategy.decide(name, lessons, all_progress)
            for name in names
            if name not in made and name not in held
        )
        fresh = [change for change in found if change is not None]
        if not fresh:
            return list(made.values())
        for change in fresh:
            progress = all_progress[change.lesson]
            all_progress[change.lesson] = replace(progress, status=change.target)
            made[change.lesson] = change


def draw_probabilities(
    strategy: Strategy, weights: Mapping[str, float], *, graduated: Collection[str]
) -> dict[str, float]:
    """Return the probability of each drawn lesson; they sum to 1.

    If none is active, graduated lessons are drawn uniformly: a trainer that continues gets its
    groups, and evaluations detect forgetting.

    Args:
        strategy: Strategy; its `rehearsal`, if it has one, is the share of the draws that graduated
            lessons get, in equal parts.
        weights: Weights of the active lessons.
        graduated: The other lessons that may be drawn; at least one lesson in all.
    """
    rehearsal: float = getattr(strategy, "rehearsal", 0.0) if weights else 1.0
    if not graduated or not rehearsal:
        return strategy.shares(weights)
    fresh = strategy.shares(weights) if weights else {}
    shares = {name: (1 - rehearsal) * share for name, share in fresh.items()}
    return shares | dict.fromkeys(graduated, rehearsal / len(graduated))


def draw(probabilities: Mapping[str, float], point: float) -> str:
    """Return the lesson at `point`, a number drawn uniformly from [0, 1).

    Args:
        probabilities: Probabilities of at least one lesson, summing to 1.
        point: The same point and probabilities give the same lesson.
    """
    reached = 0.0
    for name, probability in probabilities.items():
        reached += probability
        if point < reached:
            return name
    # Rounding may leave the sum a little below 1.
    return max(probabilities, key=lambda name: probabilities[name])


def concentration(probabilities: Mapping[str, float]) -> Concentration:
    """Return how widely sampling is spread; zeros if nothing is sampled."""
    shares = [share for share in probabilities.values() if share > 0]
    if not shares:
        return Concentration(0.0, 0.0)
    entropy = -sum(share * math.log(share) for share in shares)
    return Concentration(entropy, 1 / sum(share * share for share in shares))
