"""Curriculum in this process, with the rules of the platform's."""

import os
import threading
from collections import Counter
from typing import Final

from msgspec import Struct

from rolldeck.lessons import LessonOutcome, OutcomeReceipt, RolloutTask
from rollouts.lessons.rules.curriculum_config import check_curriculum, lessons_of, strategy_of
from rollouts.lessons.rules.evaluation import counted
from rollouts.lessons.rules.lessons import LessonStatus, draw_point, in_order, training_seed
from rollouts.lessons.rules.strategy import decided, draw, draw_probabilities, initial_progress
from runs.config.rules.language_config import LanguageConfig

STRATEGIES_VARIABLE: Final = "ROLLDECK_STRATEGIES"
"""Environment variable with the ``module:Class`` of own strategies, separated by commas."""


class LessonState(Struct, frozen=True, kw_only=True):
    """State of a lesson."""

    status: LessonStatus
    success: float
    """Success rate in [0, 1] that sampling is based on."""
    probability: float
    """Probability in [0, 1] that the next task has this lesson."""
    assigned: int
    """Problems assigned by `next_task`; the next problem has this number."""
    trained: int
    """Training rollouts counted."""
    evaluated: int
    """Evaluated problems counted."""


class LocalCurriculum:
    """Curriculum of one process; thread-safe.

    It assigns the problems and seeds that the platform assigns to a run of the same configuration
    and seed, and counts outcomes by the same rules. Each outcome counts once per call.
    """

    def __init__(self, language: LanguageConfig, *, seed: int) -> None:
        """Start with the initial status of the lessons; `seed` is that of the run.

        Raises:
            InvalidCurriculum: If the lessons or the strategy are invalid; `field` is the path below
                `language`.
        """
        named = os.environ.get(STRATEGIES_VARIABLE, "").split(",")
        registered = [name.strip() for name in named if name.strip()]
        self._language, self._seed = language, seed
        self._lessons = lessons_of(language)
        self._strategy = strategy_of(language, registered=registered)
        check_curriculum(self._lessons, self._strategy)
        initial = initial_progress(self._lessons)
        self._progress = {name: initial[name] for name in in_order(self._lessons)}
        self._assigned = Counter[str]()
        self._tasks = 0
        self._lock = threading.Lock()

    def next_task(self, lesson: str | None = None, *, examples: int | None = None) -> RolloutTask:
        """Assign the next problems of a lesson.

        Args:
            lesson: Name; by default the lesson is drawn by the shares of the strategy.
            examples: Number of problems; by default that of the lesson's tasks.
        """
        with self._lock:
            if lesson is None:
                lesson = draw(self._probabilities(), draw_point(seed=self._seed, task=self._tasks))
                self._tasks += 1
            first = self._assigned[lesson]
            count = self._language.prompts_of(lesson) if examples is None else examples
            self._assigned[lesson] += count
        return training_task(
            self._language, lesson, seed=self._seed, first_example=first, examples=count
        )

    def record(self, lesson: str, outcome: LessonOutcome) -> OutcomeReceipt:
        """Count an outcome and apply the status changes that follow.

        Micro-evaluations, and outcomes without rewards, change nothing.
        """
        if outcome.mode == "micro_eval" or not outcome.rewards:
            return OutcomeReceipt(is_new=True)
        with self._lock:
            progress = self._progress[lesson]
            following = progress.evaluation.last_step + 1
            self._progress[lesson] = counted(progress, outcome, round_number=following)
            dependents = [
                name
                for name, one in self._lessons.items()
                if self._progress[name].status is LessonStatus.LOCKED
                and any(requirement.lesson == lesson for requirement in one.requires)
            ]
            made = decided(self._strategy, [lesson, *dependents], self._lessons, self._progress)
        return OutcomeReceipt(is_new=True, changes=[str(change) for change in made])

    def states(self) -> dict[str, LessonState]:
        """Return the state of each lesson, in the order of their requirements."""
        with self._lock:
            shares = self._probabilities()
            return {
                name: LessonState(
                    status=one.status,
                    success=self._strategy.success(self._lessons[name], one),
                    probability=shares.get(name, 0.0),
                    assigned=self._assigned[name],
                    trained=one.training.samples,
                    evaluated=one.evaluation.samples,
                )
                for name, one in self._progress.items()
            }

    def _probabilities(self) -> dict[str, float]:
        weights = {
            name: self._strategy.weight(self._lessons[name], one)
            for name, one in self._progress.items()
            if one.status is LessonStatus.ACTIVE
        }
        graduated = [
            name for name, one in self._progress.items() if one.status is LessonStatus.GRADUATED
        ]
        return draw_probabilities(self._strategy, weights, graduated=graduated)


def training_task(
    language: LanguageConfig,
    lesson: str,
    *,
    seed: int,
    first_example: int,
    examples: int | None = None,
) -> RolloutTask:
    """Return the task of the problems from `first_example` on, as in a run with this seed.

    Without `examples`, it has as many as a task of the lesson.
    """
    return RolloutTask(
        kind="train",
        lesson=lesson,
        first_example=first_example,
        examples=language.prompts_of(lesson) if examples is None else examples,
        generations=language.group_size_of(lesson),
        seed=training_seed(seed=seed, lesson=lesson, first_example=first_example),
    )
