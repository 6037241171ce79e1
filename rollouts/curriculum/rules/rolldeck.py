"""The default strategy: what a curriculum means to do, for 0/1 rewards and small batches too.

- A lesson graduates when its newest evaluation shows the wanted success with 95 % confidence
  (lower bound by Wilson), and comes back when a later one excludes it (upper bound): the same
  quantity on both sides.
- A lesson unlocks once everything it requires has graduated, or succeeds often enough and gets no
  better. Failure is no success: a lesson that fails for ever unlocks nothing.
- Sampling goes by the variance p(1−p) of success, which is what a group of rollouts can learn
  from, and by a bonus for what was hardly tried. The floor is a floor, whatever the others weigh.
- A part of the draws may go to what has graduated, lest a small model forget it.
- Only counts of batches matter, never the order inside a batch.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rollouts.curriculum.rules.lessons import InvalidCurriculum, Lesson, LessonStatus
from rollouts.curriculum.rules.performance import Counts, Performance, Progress, gain, total
from rollouts.curriculum.rules.strategy import Change, Lessons, Standing
from rollouts.curriculum.rules.student import Z_95, samples_to_show, wilson

EXPLORATION_SAMPLES: Final = 100.0
"""Samples after which the bonus for a new lesson has fallen to 1/e."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RolldeckStrategy:
    """See the module."""

    minimum_sample_probability: float = 0.05
    """Least probability of an active lesson, among the active ones."""
    min_success: float = 0.5
    """Least success of a required lesson that has not graduated, whatever it says itself."""
    evaluation_samples: int = 256
    """Samples of a full evaluation."""
    reactivates: bool = True
    """Whether a graduated lesson that got worse is sampled again."""
    rehearsal: float = 0.0
    """Share of the draws that graduated lessons have together while others are active; below 1."""

    def check(self, lessons: Lessons) -> None:
        """Refuse floors that cannot hold, and goals that no evaluation could show."""
        for option in ("minimum_sample_probability", "min_success"):
            if not 0 <= getattr(self, option) <= 1:
                raise InvalidCurriculum(option, "must be between 0 and 1")
        if not 0 <= self.rehearsal < 1:
            raise InvalidCurriculum("rehearsal", "must be at least 0 and below 1")
        if self.minimum_sample_probability * len(lessons) > 1:
            raise InvalidCurriculum(
                "minimum_sample_probability",
                f"{len(lessons)} lessons cannot each have {self.minimum_sample_probability}",
            )
        for name, lesson in lessons.items():
            field = f"lessons.{name}.stop_success"
            if not 0 < lesson.stop_success < 1:
                raise InvalidCurriculum(field, "must be between 0 and 1: no sample proves 1")
            needed = samples_to_show(lesson.stop_success)
            if needed > self.evaluation_samples:
                raise InvalidCurriculum(
                    field,
                    f"an evaluation of {self.evaluation_samples} samples cannot show "
                    f"{lesson.stop_success} with 95 % confidence; {needed} could",
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
        """Return shares in proportion to the weights, none below the floor."""
        return with_floor(weights, floor=self.minimum_sample_probability)

    def judge(self, name: str, lessons: Lessons, standing: Standing) -> Change | None:
        """Return whether a lesson unlocks, graduates or comes back now."""
        match standing[name].status:
            case LessonStatus.LOCKED:
                return self._unlock(name, lessons, standing)
            case LessonStatus.ACTIVE:
                return _graduate(name, lessons[name], standing[name])
            case LessonStatus.GRADUATED:
                return self._reactivate(name, lessons[name], standing[name])

    def unlock_rule(self, lesson: Lesson) -> str:
        """Return when a lesson unlocks, for people."""
        wanted = ((one.lesson, max(one.min_success, self.min_success)) for one in lesson.requires)
        each = [
            f"{name} has graduated, or succeeds at {least:g} or more and gets no better"
            for name, least in wanted
        ]
        return f"Unlocks when {'; and '.join(each)}."

    def _unlock(self, name: str, lessons: Lessons, standing: Standing) -> Change | None:
        figures, said = {}, []
        for requirement in lessons[name].requires:
            required, progress = lessons[requirement.lesson], standing[requirement.lesson]
            if progress.status is LessonStatus.GRADUATED:
                # What graduated at once was hardly trained: its success is what was evaluated.
                seen = progress.evaluation.at_last_step()
                figures[requirement.lesson] = seen.successes / max(1, seen.samples)
                said.append(f"{requirement.lesson} is learnt")
                continue
            figures[requirement.lesson] = success = self.success(required, progress)
            least = max(requirement.min_success, self.min_success)
            if success < least or not is_plateaued(progress.training, required):
                return None
            said.append(f"{requirement.lesson} gets no better than {success:.2f}")
        return Change(
            lesson=name,
            source=LessonStatus.LOCKED,
            target=LessonStatus.ACTIVE,
            reason=", ".join(said),
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
    """Return whether the newer half of the window succeeds no more than the older half.

    More by at most `plateau_threshold` and what chance alone gives with 95 % confidence: the
    difference of two proportions, with their common variance.
    """
    batches = performance.newest(lesson.plateau_window)
    if total(batches).samples < lesson.plateau_window:
        return False
    half = total(batches).samples / 2
    older: list[Counts] = []
    newer: list[Counts] = []
    seen = 0
    for batch in batches:
        # A batch belongs to the half that its middle is in.
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
        weights: 0 or more; all alike if they sum to 0.
        floor: Lowered to an even share if there are too many.
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
