"""Curriculum of a run's configuration: its validation, data sets, packages and tokens."""

import shutil
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Final, NamedTuple

import msgspec
from django.conf import settings

from buffer.inspect.rules.token_text import TokenTable
from rollouts.curriculum.models import Lesson
from rollouts.fleet.datasets.rows import column_problem
from rollouts.fleet.groups import environment_settings
from rollouts.fleet.groups.errors import LessonFailed
from rollouts.lessons.rules.curriculum_config import check_curriculum, lessons_of, strategy_of
from rollouts.lessons.rules.lessons import InvalidCurriculum, LessonStatus, Progress, in_order
from rollouts.lessons.rules.lessons import Lesson as LessonRules
from rollouts.lessons.rules.strategy import Strategy, initial_progress
from rollouts.tasks.rules.dataset_config import KIND as DATASET
from rollouts.tasks.rules.dataset_config import OWN, dataset_name, options_of, parse
from rollouts.tasks.rules.task import KIND as TASK
from rollouts.tasks.rules.task import (
    TASKS,
    InvalidTask,
    alphabet_of,
    built_in_vocabulary,
    make_task,
    unknown_stop_token,
)
from runs.config.rules import extensions
from runs.config.rules.failure_budget import FailureBudget
from runs.config.rules.language_config import LanguageConfig
from runs.config.rules.run_config import InvalidRunConfig, RunConfig, combined, errors_of
from runs.config.services import registered_extensions
from runs.lifecycle.models import Run, RunKind
from web.rules.errors import Conflict

LOOPBACK: Final = ("127.", "localhost:", "[::1]:")


def check_dataset(field: str, spec: str, kwargs: dict[str, Any]) -> None:
    """Check a lesson ``dataset:<path>`` in `field`, and its data set if this machine has it.

    Raises:
        InvalidRunConfig: With the path of the first invalid field.
    """
    try:
        name, config = dataset_name(spec), parse(kwargs)
    except InvalidTask as error:
        place, _, message = str(error).partition(": ")
        raise InvalidRunConfig(f"{field}.{place}", message) from error
    for position, reward in enumerate(config.rewards):
        path = f"{field}.kwargs.rewards[{position}]"
        if reward.kind.startswith(OWN):
            rewards = registered_extensions(extensions.REWARDS)
            if reward.kind not in rewards:
                raise extensions.not_registered(
                    extensions.REWARDS, f"{path}.kind", reward.kind, rewards
                )
        if reward.kind == "judge":
            server = options_of(reward).server
            if server not in settings.ROLLDECK_INFERENCE_SERVERS:
                known = ", ".join(sorted(settings.ROLLDECK_INFERENCE_SERVERS)) or "none"
                raise InvalidRunConfig(
                    f"{path}.options.server",
                    f"{server!r} is not in ROLLDECK_INFERENCE_SERVERS; known: {known}",
                )
    if config.tools is not None and config.tools.server not in settings.ROLLDECK_TOOL_SERVERS:
        known = ", ".join(sorted(settings.ROLLDECK_TOOL_SERVERS)) or "none"
        raise InvalidRunConfig(
            f"{field}.kwargs.tools.server",
            f"{config.tools.server!r} is not in ROLLDECK_TOOL_SERVERS; known: {known}",
        )
    problem = column_problem(name, config, root=settings.ROLLDECK_DATASETS)
    if problem is not None:
        argument, message = problem
        path = f"{field}.kwargs.{argument}" if argument else f"{field}.spec"
        raise InvalidRunConfig(path, message)


class _Partner(NamedTuple):
    setting: str
    settings_of: Callable[[str, dict[str, str]], Any]
    arguments_of: Callable[[str, dict[str, Any]], Any]


PARTNERS: Final = {
    "verifiers": _Partner(
        environment_settings.VERIFIERS_SETTING,
        environment_settings.verifiers_settings,
        environment_settings.selection_of,
    ),
    "openenv": _Partner(
        environment_settings.OPENENV_SETTING,
        environment_settings.openenv_settings,
        environment_settings.arguments_of,
    ),
}


def check_partner(field: str, spec: str, kwargs: dict[str, Any]) -> None:
    """Check the arguments of a lesson ``verifiers:<name>`` or ``openenv:<name>`` in `field`.

    The setting of its environment is checked if this machine has it. Lessons of other kinds are
    accepted.

    Raises:
        InvalidRunConfig: With the path of the first invalid field.
    """
    kind, _, name = spec.partition(":")
    partner = PARTNERS.get(kind)
    if partner is None:
        return
    try:
        partner.arguments_of(name, kwargs)
    except LessonFailed as error:
        raise InvalidRunConfig(f"{field}.kwargs", str(error)) from error
    text = getattr(settings, partner.setting)
    if not text:
        return
    try:
        found = partner.settings_of(name, {partner.setting: text})
    except LessonFailed as error:
        raise InvalidRunConfig(f"{field}.spec", str(error)) from error
    interpreter = getattr(found, "python", "")
    # If the Ray cluster is on another machine, that machine has its own paths.
    fleets_run_here = str(settings.RAY_ADDRESS).startswith(LOOPBACK)
    if interpreter and fleets_run_here and shutil.which(interpreter) is None:
        raise InvalidRunConfig(
            f"{field}.spec",
            f"{spec}: {partner.setting}: python: {interpreter} is not an executable file of this "
            "machine. Install the environment there, or correct the setting",
        )


BYTES: Final = TokenTable([*(bytes([byte]) for byte in range(256)), ""], tag="bytes")
"""Texts of the built-in byte tokenizer; its end token has none."""


def built_in_table(run: Run) -> TokenTable | None:
    """Return the texts of a run's built-in tokenizer; None if it has none."""
    if run.kind != RunKind.LANGUAGE:
        return None
    try:
        language = curriculum_of(run.pk).language
    except (NoCurriculum, InvalidCurriculum):
        return None
    if language.model.tokenizer == "bytes":
        return BYTES
    if language.model.tokenizer != "alphabet":
        return None
    try:
        tasks = [make_task(lesson.spec, lesson.kwargs) for lesson in language.lessons.values()]
    except InvalidTask:
        return None
    return TokenTable([*alphabet_of(tasks), ""], tag="alphabet")


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
    failure_budget: FailureBudget


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
        strategy=strategy_of(language, registered=settings.ROLLDECK_STRATEGIES),
        lessons=lessons,
        order=in_order(lessons),
        dependents=dict(dependents),
        failure_budget=msgspec.convert(config.get("failure_budget", {}), FailureBudget),
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
        strategy = strategy_of(language, registered=settings.ROLLDECK_STRATEGIES)
        check_curriculum(lessons_of(language), strategy)
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
