"""Manual overrides of a curriculum: holds and sampling factors.

A hold overrides the strategy while it lasts. A factor changes how often a lesson is drawn relative
to the others. Probabilities still sum to 1: a gain of one lesson reduces the others in the
proportions set by the strategy.
"""

from collections.abc import Collection, Mapping
from typing import Final

from rollouts.lessons.rules.strategy import Change, Lessons, ProgressByLesson, Strategy

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
