"""Let people overrule a curriculum: hold a lesson where they want it, or have it drawn more.

A hold wins over the strategy for as long as it lasts. A factor changes how often a lesson is drawn
beside the others; what is drawn still sums to 1, so whatever one lesson gains the others lose in
the proportions that the strategy gave them.
"""

from collections.abc import Collection, Mapping
from typing import Final

from rollouts.curriculum.rules.strategy import Change, Lessons, Standing, Strategy

LEAST_FACTOR: Final = 0.01
"""Below it, lock the lesson: a factor is no way to stop one."""
MOST_FACTOR: Final = 100.0


def judged(
    strategy: Strategy, name: str, lessons: Lessons, standing: Standing, *, held: Collection[str]
) -> Change | None:
    """Return where the strategy moves a lesson now; None for one that a person holds."""
    return None if name in held else strategy.judge(name, lessons, standing)


def reweighted(shares: Mapping[str, float], factors: Mapping[str, float]) -> dict[str, float]:
    """Return probabilities with some lessons drawn `factors` times as often as they would be.

    Args:
        shares: Probability of each lesson that is drawn, as the strategy has it; they sum to 1.
        factors: `LEAST_FACTOR` to `MOST_FACTOR`; a lesson that is missing has 1.

    Returns:
        Of the same lessons, summing to 1: p·f of each by the sum of all p·f.
    """
    if all(factors.get(name, 1.0) == 1.0 for name in shares):
        return dict(shares)
    scaled = {name: share * factors.get(name, 1.0) for name, share in shares.items()}
    whole = sum(scaled.values())
    return {name: share / whole for name, share in scaled.items()}
