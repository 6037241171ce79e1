"""Where lessons come from and where their outcomes go: the port, and one in this process."""

import threading
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final, Protocol

from rolldeck.lessons import LessonOutcome, OutcomeReceipt, RolloutTask, TaskRequest
from rollouts.curriculum.rules.evaluation import as_outcome
from rollouts.curriculum.rules.lesson_draws import draw_point, training_seed
from rollouts.curriculum.rules.lessons import Lesson, Requirement, check_lessons
from rollouts.curriculum.rules.marin import MarinStrategy
from rollouts.curriculum.rules.performance import Outcome, Progress
from rollouts.curriculum.rules.rolldeck import RolldeckStrategy
from rollouts.curriculum.rules.strategy import (
    Strategy,
    active,
    changes,
    draw,
    initial_progress,
    probabilities,
)
from runs.core.language_config import LanguageConfig, LessonConfig

STRATEGIES: Final[Mapping[str, Any]] = MappingProxyType(
    {"rolldeck": RolldeckStrategy, "marin": MarinStrategy}
)


class Curriculum(Protocol):
    """Decides what to sample next; both calls return once it is decided and written down."""

    def next_task(self, request: TaskRequest) -> RolloutTask:
        """Return what a free worker is to do."""

    def record(self, lesson: str, outcome: LessonOutcome) -> OutcomeReceipt:
        """Take in how rollouts of a lesson ended; a key that is known changes nothing."""

    def keep_evaluation(self, evaluation: str, fence: int) -> None:
        """Hear that a leased evaluation is still worked on.

        Raises:
            RolldeckError: If it is another's by now, or nobody hears it.
        """


class NoCurriculum:
    """Takes outcomes and does nothing with them: for evaluating a checkpoint."""

    def next_task(self, request: TaskRequest) -> RolloutTask:
        """Return that there is nothing to do."""
        return RolloutTask(kind="wait", reason=f"nothing for {request.worker}", wait_seconds=1.0)

    def record(self, lesson: str, outcome: LessonOutcome) -> OutcomeReceipt:
        """Forget it."""
        del lesson, outcome
        return OutcomeReceipt(is_new=True)

    def keep_evaluation(self, evaluation: str, fence: int) -> None:
        """Lease nothing, so keep nothing."""


class LocalCurriculum:
    """A curriculum in this process: the platform's rules without its tables."""

    def __init__(self, language: LanguageConfig, *, seed: int = 0) -> None:
        """Begin with every lesson where it begins.

        Args:
            language: The run's.
            seed: The order of lessons derives from it.

        Raises:
            InvalidCurriculum: If lessons contradict each other or the strategy.
        """
        self._language = language
        self._seed = seed
        self._lock = threading.Lock()
        self.lessons = {name: _rules_of(lesson) for name, lesson in language.lessons.items()}
        self._strategy: Strategy = STRATEGIES[language.strategy](**language.strategy_options)
        check_lessons(self.lessons)
        self._strategy.check(self.lessons)
        self.standing: dict[str, Progress] = initial_progress(self.lessons)
        self._asked = 0
        self._examples = dict.fromkeys(self.lessons, 0)
        self._keys: set[str] = set()

    def next_task(self, request: TaskRequest) -> RolloutTask:
        """Return rollouts of a lesson that is active, or to wait when all have graduated."""
        del request
        with self._lock:
            if not active(self.standing):
                return RolloutTask(kind="wait", reason="curriculum_complete", wait_seconds=5.0)
            point = draw_point(seed=self._seed, task=self._asked)
            self._asked += 1
            shares = probabilities(self._strategy, self.lessons, self.standing)
            lesson = draw(shares, point)
            first = self._examples[lesson]
            self._examples[lesson] += self._language.prompts_per_batch
        return RolloutTask(
            kind="train",
            lesson=lesson,
            first_example=first,
            examples=self._language.prompts_per_batch,
            generations=self._language.group_size,
            seed=training_seed(seed=self._seed, lesson=lesson, first_example=first),
        )

    def record(self, lesson: str, outcome: LessonOutcome) -> OutcomeReceipt:
        """Take an outcome in; only `train` and `eval` move anything."""
        with self._lock:
            if outcome.key in self._keys:
                return OutcomeReceipt(is_new=False)
            self._keys.add(outcome.key)
            if outcome.mode == "micro_eval" or not outcome.rewards:
                return OutcomeReceipt(is_new=True)
            self._add(lesson, outcome)
            moved = changes(self._strategy, self.lessons, self.standing, touched=[lesson])
            for change in moved:
                self.standing[change.lesson] = self.standing[change.lesson].moved(change.target)
        said = [f"{one.lesson}: {one.source} → {one.target}, {one.reason}" for one in moved]
        return OutcomeReceipt(is_new=True, changes=said)

    def keep_evaluation(self, evaluation: str, fence: int) -> None:
        """Lease nothing, so keep nothing."""

    def _add(self, lesson: str, outcome: LessonOutcome) -> None:
        before, step = self.standing[lesson], max(0, outcome.policy_step)
        if outcome.mode == "train":
            trained = Outcome(
                step=step, rewards=tuple(outcome.rewards), successes=sum(outcome.successes)
            )
            after = replace(before, training=before.training.add(trained))
        else:
            evaluated = as_outcome(
                outcome.rewards, outcome.successes, generations=outcome.generations, step=step
            )
            after = replace(before, evaluation=before.evaluation.add(evaluated))
        self.standing[lesson] = after


def _rules_of(lesson: LessonConfig) -> Lesson:
    return Lesson(
        requires=tuple(
            Requirement(lesson=one.lesson, min_success=one.min_success) for one in lesson.requires
        ),
        stop_success=lesson.stop_success,
        plateau_window=lesson.plateau_window,
        plateau_threshold=lesson.plateau_threshold,
    )
