"""Describe how a lesson was answered: success, reward and pass@k, with how sure that is.

E examples with K answers each. Answers to the same example are alike, so uncertainty is taken
over examples wherever there are several answers to one.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Final

import numpy as np
from numpy.typing import NDArray

from rollouts.core.curriculum.student import wilson

Z_95_TWO_SIDED: Final = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A mean and its 95 % confidence interval."""

    mean: float = 0.0
    low: float = 0.0
    high: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LessonStatistics:
    """How E examples with K answers each were answered; zeros where nothing was."""

    examples: int = 0
    generations: int = 0
    success: Estimate = Estimate()
    """Rate of successful answers: pass@1, and avg@k for k = K."""
    reward: Estimate = Estimate()
    pass_at: dict[int, float] = field(default_factory=dict)
    """pass@k for k = 1, 2, 4, … and K."""


def pass_at_k(answers: int, correct: int, k: int) -> float:
    """Return the chance that at least one of `k` answers is correct.

    The estimator 1 − C(n−c, k) / C(n, k), unbiased over which k of n answers are looked at.
    Source: Chen et al. 2021 ("Evaluating large language models trained on code",
    arXiv:2107.03374, equation 1).

    Args:
        answers: n, at least `k`.
        correct: c of them.
        k: At least 1.
    """
    return 1.0 - math.comb(answers - correct, k) / math.comb(answers, k)


def describe_lesson(
    rewards: Sequence[float], successes: Sequence[bool], *, generations: int
) -> LessonStatistics:
    """Return the figures of a lesson.

    Args:
        rewards: ``[E·K]``, finite, answers to the same example beside each other.
        successes: ``[E·K]``.
        generations: K.

    Raises:
        ValueError: If the columns are not ``[E·K]``.
    """
    if len(rewards) != len(successes) or len(rewards) % max(1, generations):
        raise ValueError(
            f"{len(rewards)} rewards, {len(successes)} successes, {generations} each example"
        )
    if not rewards:
        return LessonStatistics(generations=generations)
    won = np.asarray(successes, dtype=np.bool_).reshape(-1, generations)
    scored = np.asarray(rewards, dtype=np.float64).reshape(-1, generations)
    correct = won.sum(axis=1).tolist()
    return LessonStatistics(
        examples=len(won),
        generations=generations,
        success=_success(won),
        reward=_estimate(scored.mean(axis=1)),
        pass_at={
            k: float(np.mean([pass_at_k(generations, count, k) for count in correct]))
            for k in powers(generations)
        },
    )


def powers(generations: int) -> list[int]:
    """Return 1, 2, 4, … below `generations`, and that itself."""
    return [*(1 << place for place in range((generations - 1).bit_length())), generations]


def _success(won: NDArray[np.bool_]) -> Estimate:
    """Return the rate of success: by Wilson's interval where answers are independent."""
    if won.shape[1] > 1:
        rate = _estimate(won.mean(axis=1))
        return Estimate(mean=rate.mean, low=max(0.0, rate.low), high=min(1.0, rate.high))
    low, high = wilson(int(won.sum()), len(won), z=Z_95_TWO_SIDED)
    return Estimate(mean=float(won.mean()), low=low, high=high)


def _estimate(means: NDArray[np.float64]) -> Estimate:
    """Return the mean over examples with its normal interval; as wide as the mean of one."""
    mean = float(means.mean())
    reach = (
        Z_95_TWO_SIDED * float(means.std(ddof=1)) / math.sqrt(len(means)) if len(means) > 1 else 0.0
    )
    return Estimate(mean=mean, low=mean - reach, high=mean + reach)
