"""Holds, factors and performance of lessons, without Django.

Manual overrides of a curriculum: holds and sampling factors.

A hold overrides the strategy while it lasts. A factor changes how often a lesson is drawn relative
to the others. Probabilities still sum to 1: a gain of one lesson reduces the others in the
proportions set by the strategy.
"""

import inspect
import struct
from collections.abc import Collection, Mapping
from typing import Any, Final

import numpy as np

from rollouts.lessons.rules.lessons import (
    Counts,
    InvalidCurriculum,
    Lesson,
    Performance,
    Requirement,
    check_lessons,
)
from rollouts.lessons.rules.marin import MarinStrategy
from rollouts.lessons.rules.rolldeck import RolldeckStrategy
from rollouts.lessons.rules.strategy import Change, Lessons, ProgressByLesson, Strategy
from runs.config.rules.language_config import LanguageConfig

# Curriculum of a run's configuration.

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


# Binary serialization of a performance, at most 14 KiB per mode and row.

_HEAD: Final = struct.Struct("<qqII")
"""Header: number of samples, last step, and the number of rewards and batches that follow."""
_COUNTS: Final = 3


def pack(performance: Performance) -> bytes:
    """Return a performance as bytes, without loss: float64 rewards, int64 counts."""
    head = _HEAD.pack(
        performance.samples,
        performance.last_step,
        len(performance.rewards),
        len(performance.batches),
    )
    rewards = np.asarray(performance.rewards, dtype="<f8").tobytes()
    return head + rewards + np.asarray(performance.batches, dtype="<i8").tobytes()


def unpack(content: bytes | memoryview) -> Performance:
    """Return the performance in `content`; an empty one if there are no bytes."""
    if not len(content):
        return Performance()
    samples, last_step, rewards, batches = _HEAD.unpack_from(content)
    values = np.frombuffer(content, "<f8", rewards, _HEAD.size)
    counts = np.frombuffer(content, "<i8", batches * _COUNTS, _HEAD.size + values.nbytes)
    return Performance(
        samples=samples,
        last_step=last_step,
        rewards=tuple(values.tolist()),
        batches=tuple(Counts(*row) for row in counts.reshape(batches, _COUNTS).tolist()),
    )


LEAST_FACTOR: Final = 0.01
"""Smallest factor; to stop a lesson, lock it."""
MOST_FACTOR: Final = 100.0


def decide(
    strategy: Strategy,
    name: str,
    lessons: Lessons,
    all_progress: ProgressByLesson,
    *,
    held: Collection[str],
) -> Change | None:
    """Return the lesson's status change by the strategy; None for a held lesson."""
    return None if name in held else strategy.decide(name, lessons, all_progress)


def reweighted(shares: Mapping[str, float], factors: Mapping[str, float]) -> dict[str, float]:
    """Return probabilities with some lessons drawn `factors` times as often.

    Args:
        shares: Probability of each drawn lesson under the strategy; they sum to 1.
        factors: `LEAST_FACTOR` to `MOST_FACTOR`; 1 for missing lessons.

    Returns:
        Probabilities of the same lessons: p·f of each divided by the sum of all p·f.
    """
    if all(factors.get(name, 1.0) == 1.0 for name in shares):
        return dict(shares)
    scaled = {name: share * factors.get(name, 1.0) for name, share in shares.items()}
    whole = sum(scaled.values())
    return {name: share / whole for name, share in scaled.items()}
