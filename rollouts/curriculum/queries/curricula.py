"""Curriculum of a run's configuration, and its validation."""

from collections import defaultdict
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib import import_module
from typing import Any

import msgspec
from django.conf import settings

from rollouts.curriculum.models import Lesson
from rollouts.curriculum.queries.lesson_checks import check_dataset, check_partner
from rollouts.curriculum.rules import (
    STRATEGIES,
    check_curriculum,
    lessons_of,
    make_strategy,
)
from rollouts.lessons.rules.lessons import InvalidCurriculum, LessonStatus, in_order
from rollouts.lessons.rules.lessons import Lesson as LessonRules
from rollouts.lessons.rules.performance import Progress
from rollouts.lessons.rules.strategy import Strategy, initial_progress
from rollouts.tasks.rules.dataset_config import KIND as DATASET
from rollouts.tasks.rules.stop_tokens import built_in_vocabulary, unknown_stop_token
from rollouts.tasks.rules.task_specs import KIND as TASK
from rollouts.tasks.rules.task_specs import TASKS, InvalidTask, make_task
from runs.config.rules.language_config import LanguageConfig
from runs.config.rules.run_config import InvalidRunConfig, RunConfig, combined, errors_of
from runs.lifecycle.models import Run
from web.rules.errors import Conflict


class NoCurriculum(Conflict):
    """The run is not a language run, so it has no lessons."""

    code = "no_curriculum"
    title = "The run has no lessons"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCurriculum:
    """Constant data of a run's lessons."""

    language: LanguageConfig
    seed: int
    """Id of the run."""
    strategy: Strategy
    lessons: dict[str, LessonRules]
    order: list[str]
    """Names in topological order of their requirements."""
    dependents: dict[str, list[str]]
    """Lessons that require each lesson."""


# A run's configuration never changes once the run exists.
@lru_cache(maxsize=32)
def curriculum_of(run_id: int) -> RunCurriculum:
    """Return the curriculum of a run.

    Raises:
        NoCurriculum: If it is not a language run.
        InvalidCurriculum: If its strategy is no longer registered.
    """
    config = Run.objects.values_list("config", flat=True).get(pk=run_id)
    if not config or config.get("language") is None:
        raise NoCurriculum("only language runs have lessons")
    language = msgspec.convert(config["language"], LanguageConfig)
    lessons = lessons_of(language)
    dependents: defaultdict[str, list[str]] = defaultdict(list)
    for name, lesson in lessons.items():
        for requirement in lesson.requires:
            dependents[requirement.lesson].append(name)
    return RunCurriculum(
        language=language,
        seed=config["seed"],
        strategy=strategy_of(language),
        lessons=lessons,
        order=in_order(lessons),
        dependents=dict(dependents),
    )


def first_rows(run_id: int, curriculum: RunCurriculum) -> list[Lesson]:
    """Return the initial, unsaved lessons of a run, in order."""
    all_progress = initial_progress(curriculum.lessons)
    made = []
    for position, name in enumerate(curriculum.order):
        row = Lesson(run_id=run_id, name=name, position=position)
        weigh(row, all_progress[name], curriculum)
        made.append(row)
    return made


def weigh(row: Lesson, progress: Progress, curriculum: RunCurriculum) -> None:
    """Store the sampling weight of a lesson, so that a draw reads one number per lesson."""
    lesson, strategy = curriculum.lessons[row.name], curriculum.strategy
    row.status = progress.status
    row.success = strategy.success(lesson, progress)
    is_active = progress.status is LessonStatus.ACTIVE
    row.weight = strategy.weight(lesson, progress) if is_active else 0.0


def strategy_of(language: LanguageConfig) -> Strategy:
    """Return the configured strategy of a run.

    Raises:
        InvalidCurriculum: If it is not registered, cannot be imported, or rejects its options.
    """
    return make_strategy(
        _class_of(language.strategy),
        language.strategy_options,
        evaluation_samples=language.evaluation.examples,
    )


def _class_of(name: str) -> type[Any]:
    if name in STRATEGIES:
        return STRATEGIES[name]
    if name not in settings.ROLLDECK_STRATEGIES:
        known = ", ".join([*STRATEGIES, *settings.ROLLDECK_STRATEGIES])
        raise InvalidCurriculum(
            "strategy",
            f"{name!r} is not registered: an administrator must add it to ROLLDECK_STRATEGIES; "
            f"known: {known}",
        )
    module, _, attribute = name.partition(":")
    try:
        found: type[Any] = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise InvalidCurriculum("strategy", f"{name} cannot be imported: {error}") from error
    return found


def check_language(config: RunConfig) -> None:
    """Check that the lessons of a configuration can be learned.

    Raises:
        InvalidRunConfig: With the path of the first invalid field; `others` are the further errors.
    """
    language = config.language
    if language is None:
        return
    errors = errors_of(
        partial(_check_curriculum, language),
        *(
            partial(_check_environment, f"language.lessons.{name}", lesson.spec, lesson.kwargs)
            for name, lesson in language.lessons.items()
        ),
        partial(_check_tokenizer, language),
        partial(_check_stop_tokens, language),
    )
    if errors:
        raise combined(errors)


def _check_curriculum(language: LanguageConfig) -> None:
    try:
        check_curriculum(lessons_of(language), strategy_of(language))
    except InvalidCurriculum as error:
        raise InvalidRunConfig(f"language.{error.field}", error.message) from error


def _check_tokenizer(language: LanguageConfig) -> None:
    """Check that the built-in alphabet, which is that of the tasks, is not used for data sets."""
    named = [name for name, one in language.lessons.items() if one.spec.startswith(DATASET)]
    if named and language.model.tokenizer == "alphabet":
        raise InvalidRunConfig(
            "language.model.tokenizer",
            f"'alphabet' has the characters of task: lessons only; lesson {named[0]!r} has a data "
            "set: use 'bytes', or a checkpoint and 'checkpoint'",
        )


def _check_stop_tokens(language: LanguageConfig) -> None:
    """Check stop tokens against a built-in tokenizer; workers check those of checkpoints."""
    size = built_in_vocabulary(language)
    wrong = None if size is None else unknown_stop_token(language, vocab_size=size)
    if wrong is not None:
        raise InvalidRunConfig(f"language.{wrong[0]}", wrong[1])


def _check_environment(field: str, spec: str, kwargs: dict[str, Any]) -> None:
    """Check for a built-in task or a registered environment; workers would import others."""
    if spec in settings.ROLLDECK_ENVIRONMENTS:
        check_partner(field, spec, kwargs)
        return
    if spec.startswith(DATASET):
        check_dataset(field, spec, kwargs)
        return
    if not spec.startswith(TASK):
        raise InvalidRunConfig(
            f"{field}.spec",
            f"{spec!r} is not a registered token environment: an administrator must add it to "
            "ROLLDECK_ENVIRONMENTS, on the server and on every machine with workers; built-in: "
            f"{', '.join(TASK + name for name in TASKS)}, {DATASET}<path>",
        )
    try:
        make_task(spec, kwargs)
    except InvalidTask as error:
        place, _, message = str(error).partition(": ")
        raise InvalidRunConfig(f"{field}.{place}", message) from error
