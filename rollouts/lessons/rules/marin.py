"""Marin's published curriculum, bit-exact; :mod:`…rolldeck` corrects its flaws.

Source: marin-community/marin, ``marin/rl/curriculum.py`` (Apache-2.0). Its known flaws are kept
and tested: a success rate that never reaches 1, a plateau test that 0/1 rewards rarely pass but
total failure does, a minimum that renormalization lowers, and an average that depends on the order
inside a batch.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from rollouts.lessons.rules.evaluation import two_sided_p
from rollouts.lessons.rules.lessons import Lesson, LessonStatus, Performance, Progress
from rollouts.lessons.rules.strategy import Change, Lessons, ProgressByLesson

ALPHA: Final = 0.1
PRIOR: Final = 0.5
NEAR_ZERO: Final = 1e-6
STABLE_VARIATION: Final = 0.1
INSIGNIFICANT_P: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class MarinStrategy:
    """Sampling by 4s(1−s) and exploration; unlocking and graduation by an average and a plateau."""

    minimum_sample_probability: float = 0.1

    def check(self, lessons: Lessons) -> None:
        """Accept all lessons, as the original does."""

    def success(self, lesson: Lesson, progress: Progress) -> float:  # noqa: ARG002 the protocol's
        """Return the smoothed success of training; evaluations are ignored."""
        return smoothed_success(progress.training.rewards)

    def weight(self, lesson: Lesson, progress: Progress) -> float:
        """Return max(0, 4s − 4s²) · (1 + e^(−0.01 n)) for success s after n samples."""
        success = self.success(lesson, progress)
        learnable = max(0.0, -4 * success**2 + 4 * success)
        return learnable * (1.0 + float(np.exp(-0.01 * progress.training.samples)))

    def shares(self, weights: Mapping[str, float]) -> dict[str, float]:
        """Return w / (1 + Σw), raised to the minimum, then renormalized."""
        total = 1 + sum(weights.values())
        least = self.minimum_sample_probability
        raised = {name: max(weight / total, least) for name, weight in weights.items()}
        total = sum(raised.values())
        return {name: weight / total for name, weight in raised.items()}

    def decide(self, name: str, lessons: Lessons, all_progress: ProgressByLesson) -> Change | None:
        """Return the lesson's status change, if any; a graduated lesson stays graduated."""
        match all_progress[name].status:
            case LessonStatus.LOCKED:
                return self._unlock(name, lessons, all_progress)
            case LessonStatus.ACTIVE:
                return self._graduate(name, lessons[name], all_progress[name])
            case LessonStatus.GRADUATED:
                return None

    def unlock_rule(self, lesson: Lesson) -> str:
        """Return the unlock condition as text for users."""
        each = [
            f"{one.lesson} reaches a success rate of {one.min_success:g} and a plateau"
            for one in lesson.requires
        ]
        return f"Unlocks when {'; and '.join(each)}."

    def _unlock(self, name: str, lessons: Lessons, all_progress: ProgressByLesson) -> Change | None:
        figures = {}
        for requirement in lessons[name].requires:
            required, progress = lessons[requirement.lesson], all_progress[requirement.lesson]
            figures[requirement.lesson] = success = self.success(required, progress)
            if success < requirement.min_success or not self._is_flat(required, progress):
                return None
        return Change(
            lesson=name,
            source=LessonStatus.LOCKED,
            target=LessonStatus.ACTIVE,
            reason="every required lesson has reached its threshold and a plateau",
            figures=figures,
        )

    def _graduate(self, name: str, lesson: Lesson, progress: Progress) -> Change | None:
        success = self.success(lesson, progress)
        if progress.evaluation.last_step < 0 or success < lesson.stop_success:
            return None
        if not self._is_flat(lesson, progress):
            return None
        return Change(
            lesson=name,
            source=LessonStatus.ACTIVE,
            target=LessonStatus.GRADUATED,
            reason=f"smoothed success {success:.3f} ≥ {lesson.stop_success}, no trend",
            figures={"success": success},
        )

    def _is_flat(self, lesson: Lesson, progress: Progress) -> bool:
        return is_plateaued(
            progress.training, window=lesson.plateau_window, threshold=lesson.plateau_threshold
        )


def smoothed_success(rewards: Sequence[float]) -> float:
    """Return the exponentially smoothed rate of rewards above 0, from a prior of 0.5.

    After n successes it is 1 − 0.5·0.9ⁿ.
    """
    smoothed = PRIOR
    for reward in rewards:
        smoothed = (1 - ALPHA) * smoothed + ALPHA * float(reward > 0)
    return smoothed


def is_plateaued(performance: Performance, *, window: int, threshold: float) -> bool:
    """Return whether the last `window` rewards show neither trend nor spread.

    All of: |slope| / |mean| below `threshold`, standard deviation / |mean| below 0.1, and a slope
    that linear regression finds insignificant (p > 0.1).
    """
    if len(performance.rewards) < window:
        return False
    recent = np.asarray(performance.rewards[-window:], dtype=np.float64)
    slope, p_value = regression(recent)
    mean = abs(float(recent.mean()))
    is_level = mean <= NEAR_ZERO or abs(slope) / mean < threshold
    is_stable = mean <= NEAR_ZERO or float(recent.std()) / mean < STABLE_VARIATION
    return is_level and is_stable and (math.isnan(p_value) or p_value > INSIGNIFICANT_P)


def regression(values: "np.typing.NDArray[np.float64]") -> tuple[float, float]:
    """Return slope and two-sided p-value of a line through ``values [n]`` at 0 … n−1.

    Equivalent to ``scipy.stats.linregress``; p is NaN if the values do not vary.
    """
    n = len(values)
    x = np.arange(n)
    (sxx, sxy), (_, syy) = np.cov(x, values, bias=True)
    slope = float(sxy / sxx) if sxx else math.nan
    if not syy or n < 3:
        return slope, math.nan
    r = float(np.clip(sxy / math.sqrt(sxx * syy), -1.0, 1.0))
    freedom = n - 2
    t = r * math.sqrt(freedom / ((1.0 - r + 1e-20) * (1.0 + r + 1e-20)))
    return slope, two_sided_p(t, freedom=freedom)
