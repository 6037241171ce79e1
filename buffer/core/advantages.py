"""Say how much better than its group each sequence scored.

Both rules compare a sequence with the others that answered the same prompt, so no value network
is needed. A group whose scores are all alike teaches nothing under either.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

EPSILON: Final = 1e-6
"""Added to the deviation by which GRPO divides, so that equal scores divide by something."""

Scores = NDArray[np.floating[Any]]
Advantages = NDArray[np.float64]


def rloo(scores: Scores) -> Advantages:
    """Return each score less the mean of the others: REINFORCE, leave one out.

    Kool, van Hoof & Welling 2019 ("Buy 4 REINFORCE samples, get a baseline for free!"); Ahmadian
    et al. 2024 ("Back to basics") for language models:

        A_i = r_i − 1/(S−1) · Σ_{j≠i} r_j  =  S/(S−1) · (r_i − mean(r))

    Args:
        scores: ``[S]`` r, finite.

    Returns:
        ``[S]``; they sum to zero. Zeros when S < 2 or all scores are equal; not finite where the
        scores are too far apart for a float64.
    """
    if len(scores) < 2 or _alike(scores):
        return np.zeros(len(scores))
    with np.errstate(all="ignore"):
        return _centred(scores) * (len(scores) / (len(scores) - 1))


def grpo(scores: Scores) -> Advantages:
    """Return each score less the group's mean, in units of the group's deviation.

    Shao et al. 2024 ("DeepSeekMath", section 4.1.2), with the population's deviation:

        A_i = (r_i − mean(r)) / (std(r) + 10⁻⁶)

    Args:
        scores: ``[S]`` r, finite.

    Returns:
        ``[S]`` of mean 0 and, where std(r) ≫ 10⁻⁶, of deviation 1. Zeros when S < 2 or all scores
        are equal; not finite where the scores are too far apart for a float64.
    """
    if len(scores) < 2 or _alike(scores):
        return np.zeros(len(scores))
    centred = _centred(scores)
    # Squared in units of the largest, so that no square is too large.
    largest = float(np.abs(centred).max())
    with np.errstate(all="ignore"):
        deviation = largest * float(np.sqrt(np.mean((centred / largest) ** 2)))
        advantages: Advantages = centred / (deviation + EPSILON)
    return advantages


RULES: Final[Mapping[str, Callable[[Scores], Advantages]]] = MappingProxyType(
    {"rloo": rloo, "grpo": grpo}
)


def has_zero_variance(scores: Scores) -> bool:
    """Return whether there are two scores or more (``[S]``), and all are equal."""
    return len(scores) >= 2 and _alike(scores)


def _alike(scores: Scores) -> bool:
    # Not by the deviation: the mean of equal numbers may differ from them by a rounding.
    return bool(scores.min() == scores.max())


def _centred(scores: Scores) -> Advantages:
    wide = np.asarray(scores, dtype=np.float64)
    with np.errstate(all="ignore"):
        centred: Advantages = wide - wide.mean()
    return centred
