"""In-process curriculum with the platform's rules, without its tables."""

import threading
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from rolldeck.lessons import LessonOutcome, OutcomeReceipt, RolloutTask, TaskRequest
from rollouts.lessons.rules.evaluation import as_outcome
from rollouts.lessons.rules.lessons import (
    Lesson,
    Outcome,
    Progress,
    Requirement,
    check_lessons,
    draw_point,
    training_seed,
)
from rollouts.lessons.rules.marin import MarinStrategy
from rollouts.lessons.rules.rolldeck import RolldeckStrategy
from rollouts.lessons.rules.strategy import (
    Strategy,
    active,
    changes,
    draw,
    initial_progress,
    probabilities,
)
from runs.config.rules.language_config import LanguageConfig, LessonConfig

STRATEGIES: Final[Mapping[str, Any]] = MappingProxyType(
    {"rolldeck": RolldeckStrategy, "marin": MarinStrategy}
)


class LocalCurriculum:
    """Source of tasks and receiver of outcomes in the memory of this process."""

    def __init__(self, language: LanguageConfig, *, seed: int = 0) -> None:
        """Start with the initial progress of every lesson.

        Args:
            language: Language configuration of the run.
            seed: Seed of the order of lessons.

        Raises:
            InvalidCurriculum: If the lessons contradict each other or the strategy.
        """
        self._language = language
        self._seed = seed
        self._lock = threading.Lock()
        self.lessons = {name: _rules_of(lesson) for name, lesson in language.lessons.items()}
        self._strategy: Strategy = STRATEGIES[language.strategy](**language.strategy_options)
        check_lessons(self.lessons)
        self._strategy.check(self.lessons)
        self.standing: dict[str, Progress] = initial_progress(self.lessons)
        self._tasks_drawn = 0
        self._examples = dict.fromkeys(self.lessons, 0)
        self._keys: set[str] = set()

    def next_task(self, request: TaskRequest) -> RolloutTask:
        """Return rollouts of an active lesson, or a task to wait if all have graduated."""
        del request
        with self._lock:
            if not active(self.standing):
                return RolloutTask(kind="wait", reason="curriculum_complete", wait_seconds=5.0)
            point = draw_point(seed=self._seed, task=self._tasks_drawn)
            self._tasks_drawn += 1
            shares = probabilities(self._strategy, self.lessons, self.standing)
            lesson = draw(shares, point)
            first = self._examples[lesson]
            self._examples[lesson] += self._language.prompts_of(lesson)
        return RolloutTask(
            kind="train",
            lesson=lesson,
            first_example=first,
            examples=self._language.prompts_of(lesson),
            generations=self._language.group_size_of(lesson),
            seed=training_seed(seed=self._seed, lesson=lesson, first_example=first),
        )

    def record(self, lesson: str, outcome: LessonOutcome) -> OutcomeReceipt:
        """Record an outcome; only the modes `train` and `eval` affect progress."""
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
        lines = [f"{one.lesson}: {one.source} → {one.target}, {one.reason}" for one in moved]
        return OutcomeReceipt(is_new=True, changes=lines)

    def renew_evaluation(self, evaluation: str, fence: int) -> None:
        """Do nothing: evaluations are not leased."""

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
