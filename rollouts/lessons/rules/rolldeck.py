"""The default strategy, for 0/1 rewards and small batches too.

- A lesson graduates when its newest evaluation shows the required success with 95 % confidence
  (lower bound by Wilson). It is reactivated when a later one excludes it (upper bound): the same
  quantity on both sides.
- A lesson unlocks once everything it requires has graduated, or succeeds often enough and stops
  improving. A lesson that always fails unlocks nothing.
- Sampling weights are the variance p(1−p) of success, which a group of rollouts can learn from,
  times a bonus for rarely sampled lessons. The minimum holds regardless of the other weights.
- A share of the draws may go to graduated lessons, so that a small model does not forget them.
- Only counts of batches matter, never the order inside a batch.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rollouts.lessons.rules.evaluation import Z_95, samples_to_show, wilson
from rollouts.lessons.rules.lessons import (
    Counts,
    InvalidCurriculum,
    Lesson,
    LessonStatus,
    Performance,
    Progress,
    gain,
    total,
)
from rollouts.lessons.rules.strategy import Change, Lessons, ProgressByLesson

EXPLORATION_SAMPLES: Final = 100.0
"""Samples after which the bonus for a new lesson has decayed to 1/e."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RolldeckStrategy:
    """Default curriculum strategy; the module describes its rules."""

    minimum_sample_probability: float = 0.05
    """Minimum probability of an active lesson, among the active ones."""
    min_success: float = 0.5
    """Minimum success of a required lesson that has not graduated, regardless of its requirement.
    """
    evaluation_samples: int = 256
    """Samples of a full evaluation."""
    reactivates: bool = True
    """Whether a graduated lesson that became worse is sampled again."""
    rehearsal: float = 0.0
    """Share of the draws for all graduated lessons together while others are active; below 1."""

    def check(self, lessons: Lessons) -> None:
        """Check that minimum probabilities are possible and goals provable by evaluation."""
        for option in ("minimum_sample_probability", "min_success"):
            if not 0 <= getattr(self, option) <= 1:
                raise InvalidCurriculum(option, "must be between 0 and 1")
        if not 0 <= self.rehearsal < 1:
            raise InvalidCurriculum("rehearsal", "must be at least 0 and below 1")
        if self.minimum_sample_probability * len(lessons) > 1:
            raise InvalidCurriculum(
                "minimum_sample_probability",
                f"{self.minimum_sample_probability} for each of {len(lessons)} lessons exceeds 1",
            )
        for name, lesson in lessons.items():
            field = f"lessons.{name}.stop_success"
            if not 0 < lesson.stop_success < 1:
                raise InvalidCurriculum(field, "must be above 0 and below 1: no sample proves 1")
            needed = samples_to_show(lesson.stop_success)
            if needed > self.evaluation_samples:
                raise InvalidCurriculum(
                    field,
                    f"an evaluation of {self.evaluation_samples} samples cannot show "
                    f"{lesson.stop_success} with 95 % confidence; at least {needed} are needed",
                )

    def success(self, lesson: Lesson, progress: Progress) -> float:
        """Return the mean of a uniform prior and the newest `plateau_window` samples."""
        seen = total(progress.training.newest(lesson.plateau_window))
        return (seen.successes + 1) / (seen.samples + 2)

    def weight(self, lesson: Lesson, progress: Progress) -> float:
        """Return p(1−p) · (1 + e^(−n/100)) for success p after n samples."""
        success = self.success(lesson, progress)
        bonus = 1.0 + math.exp(-progress.training.samples / EXPLORATION_SAMPLES)
        return success * (1 - success) * bonus

    def shares(self, weights: Mapping[str, float]) -> dict[str, float]:
        """Return shares in proportion to the weights, none below the minimum."""
        return with_floor(weights, floor=self.minimum_sample_probability)

    def decide(self, name: str, lessons: Lessons, all_progress: ProgressByLesson) -> Change | None:
        match all_progress[name].status:
            case LessonStatus.LOCKED:
                return self._unlock(name, lessons, all_progress)
            case LessonStatus.ACTIVE:
                return _graduate(name, lessons[name], all_progress[name])
            case LessonStatus.GRADUATED:
                return self._reactivate(name, lessons[name], all_progress[name])

    def unlock_rule(self, lesson: Lesson) -> str:
        """Return the unlock condition as text for users."""
        requirements = (
            (one.lesson, max(one.min_success, self.min_success)) for one in lesson.requires
        )
        each = [
            f"{name} has graduated, or has a success rate of at least {least:g} and stops improving"
            for name, least in requirements
        ]
        return f"Unlocks when {'; and '.join(each)}."

    def _unlock(self, name: str, lessons: Lessons, all_progress: ProgressByLesson) -> Change | None:
        figures, reasons = {}, []
        for requirement in lessons[name].requires:
            required, progress = lessons[requirement.lesson], all_progress[requirement.lesson]
            if progress.status is LessonStatus.GRADUATED:
                # A lesson that graduated at once was hardly trained, so its evaluated success
                # counts.
                seen = progress.evaluation.at_last_step()
                figures[requirement.lesson] = seen.successes / max(1, seen.samples)
                reasons.append(f"{requirement.lesson} has graduated")
                continue
            figures[requirement.lesson] = success = self.success(required, progress)
            least = max(requirement.min_success, self.min_success)
            if success < least or not is_plateaued(progress.training, required):
                return None
            reasons.append(f"{requirement.lesson} stopped improving at {success:.2f}")
        return Change(
            lesson=name,
            source=LessonStatus.LOCKED,
            target=LessonStatus.ACTIVE,
            reason=", ".join(reasons),
            figures=figures,
        )

    def _reactivate(self, name: str, lesson: Lesson, progress: Progress) -> Change | None:
        seen = progress.evaluation.at_last_step()
        _, upper = wilson(seen.successes, seen.samples)
        if not self.reactivates or upper >= lesson.stop_success:
            return None
        return Change(
            lesson=name,
            source=LessonStatus.GRADUATED,
            target=LessonStatus.ACTIVE,
            reason=f"evaluation fell to {seen.successes} of {seen.samples}: "
            f"at most {upper:.3f} < {lesson.stop_success}",
            figures={"success": seen.successes / seen.samples, "upper_bound": upper},
        )


def _graduate(name: str, lesson: Lesson, progress: Progress) -> Change | None:
    seen = progress.evaluation.at_last_step()
    lower, _ = wilson(seen.successes, seen.samples)
    if lower < lesson.stop_success:
        return None
    return Change(
        lesson=name,
        source=LessonStatus.ACTIVE,
        target=LessonStatus.GRADUATED,
        reason=f"evaluation succeeded {seen.successes} times of {seen.samples}: "
        f"at least {lower:.3f} ≥ {lesson.stop_success}",
        figures={"success": seen.successes / seen.samples, "lower_bound": lower},
    )


def is_plateaued(performance: Performance, lesson: Lesson) -> bool:
    """Return whether the newer half of the window succeeds no more often than the older half.

    An increase of at most `plateau_threshold` plus chance, with 95 % confidence, counts as none:
    the difference of two proportions, with their common variance.
    """
    batches = performance.newest(lesson.plateau_window)
    if total(batches).samples < lesson.plateau_window:
        return False
    half = total(batches).samples / 2
    older: list[Counts] = []
    newer: list[Counts] = []
    seen = 0
    for batch in batches:
        # A batch belongs to the half that contains its middle.
        (older if seen + batch.samples / 2 < half else newer).append(batch)
        seen += batch.samples
    before, after = total(older), total(newer)
    if not before.samples or not after.samples:
        return False
    gained, spread = gain(before, after)
    return gained <= lesson.plateau_threshold + Z_95 * spread


def with_floor(weights: Mapping[str, float], *, floor: float) -> dict[str, float]:
    """Return shares that sum to 1, in proportion to `weights` wherever that is above `floor`.

    Args:
        weights: 0 or more; equal shares if they sum to 0.
        floor: Minimum share, lowered to an equal share if there are too many.
    """
    if not weights:
        return {}
    floor = min(floor, 1 / len(weights))
    raised: set[str] = set()
    while True:
        others = {name: weight for name, weight in weights.items() if name not in raised}
        left, sum_of_others = 1 - floor * len(raised), sum(others.values())
        if not sum_of_others:
            shares = dict.fromkeys(others, left / len(others) if others else 0.0)
        else:
            shares = {name: left * (weight / sum_of_others) for name, weight in others.items()}
        below = {name for name, share in shares.items() if share < floor}
        if not below:
            return {name: shares.get(name, floor) for name in weights}
        raised |= below
