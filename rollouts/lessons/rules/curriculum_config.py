"""Curriculum of a run's configuration: its lessons, its strategy, and their checks."""

import inspect
from collections.abc import Collection, Mapping
from importlib import import_module
from typing import Any, Final

from rollouts.lessons.rules.lessons import InvalidCurriculum, Lesson, Requirement, check_lessons
from rollouts.lessons.rules.marin import MarinStrategy
from rollouts.lessons.rules.rolldeck import RolldeckStrategy
from rollouts.lessons.rules.strategy import Lessons, Strategy
from runs.config.rules.language_config import LanguageConfig

STRATEGIES: Final[dict[str, type[Any]]] = {"rolldeck": RolldeckStrategy, "marin": MarinStrategy}
"""Built-in strategies."""
EVALUATION_SAMPLES: Final = "evaluation_samples"
"""Option for the number of problems of an evaluation; it is set from the configuration."""

Options = Mapping[str, float | bool | int]


def lessons_of(language: LanguageConfig) -> dict[str, Lesson]:
    """Return the curriculum data of a run's lessons: their order and goals."""
    ordered = [(name, language.lessons[name]) for name in language.lesson_order]
    return {
        name: Lesson(
            requires=tuple(
                Requirement(lesson=one.lesson, min_success=one.min_success)
                for one in lesson.requires
            ),
            stop_success=lesson.stop_success,
            plateau_window=lesson.plateau_window,
            plateau_threshold=lesson.plateau_threshold,
        )
        for name, lesson in ordered
    }


def make_strategy(kind: type[Any], options: Options, *, evaluation_samples: int) -> Strategy:
    """Return the strategy of class `kind` with the run's options.

    Args:
        kind: The arguments of its constructor are its options, each a float, an int or a bool.
        options: Values by name.
        evaluation_samples: Problems of an evaluation, passed to a class with an argument of that
            name.

    Raises:
        InvalidCurriculum: If an option is unknown or of the wrong type.
    """
    known = inspect.signature(kind).parameters
    choosable = [name for name in known if name != EVALUATION_SAMPLES]
    given: dict[str, Any] = {}
    for name, value in options.items():
        field = f"strategy_options.{name}"
        if name == EVALUATION_SAMPLES and name in known:
            raise InvalidCurriculum(field, "cannot be set; it is evaluation.examples")
        if name not in choosable:
            listed = ", ".join(choosable) or "none"
            raise InvalidCurriculum(field, f"unknown option; known: {listed}")
        # Annotations of other types are ignored.
        expected = known[name].annotation
        kind_name = expected if isinstance(expected, str) else getattr(expected, "__name__", "")
        is_bool = isinstance(value, bool)
        is_right = {
            "bool": is_bool,
            "int": isinstance(value, int) and not is_bool,
            "float": not is_bool,
        }
        if not is_right.get(kind_name, True):
            raise InvalidCurriculum(field, f"must be of type {kind_name}")
        given[name] = float(value) if kind_name == "float" else value
    if EVALUATION_SAMPLES in known:
        given[EVALUATION_SAMPLES] = evaluation_samples
    made: Strategy = kind(**given)
    return made


def strategy_of(language: LanguageConfig, *, registered: Collection[str]) -> Strategy:
    """Return the configured strategy of a run.

    Args:
        language: Language configuration of the run.
        registered: ``module:Class`` of each strategy that an administrator has registered.

    Raises:
        InvalidCurriculum: If it is not registered, cannot be imported, or rejects its options.
    """
    name = language.strategy
    kind = STRATEGIES.get(name)
    if kind is None:
        if name not in registered:
            known = ", ".join([*STRATEGIES, *registered])
            raise InvalidCurriculum(
                "strategy",
                f"{name!r} is not registered: an administrator must add it to "
                f"ROLLDECK_STRATEGIES; known: {known}",
            )
        module, _, attribute = name.partition(":")
        try:
            kind = getattr(import_module(module), attribute)
        except (ImportError, AttributeError) as error:
            raise InvalidCurriculum("strategy", f"{name} cannot be imported: {error}") from error
    return make_strategy(
        kind, language.strategy_options, evaluation_samples=language.evaluation.examples
    )


def check_curriculum(lessons: Lessons, strategy: Strategy) -> None:
    """Check that lessons are consistent and can be completed under the strategy.

    Raises:
        InvalidCurriculum: With the path below `language`.
    """
    check_lessons(lessons)
    try:
        strategy.check(lessons)
    except InvalidCurriculum as error:
        if error.field.startswith("lessons"):
            raise
        # An option by its name, whether the run has set it or not.
        raise InvalidCurriculum(f"strategy_options.{error.field}", error.message) from error
