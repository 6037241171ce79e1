"""Compare dropped with served items to measure selection bias.

Dropping stale items favours items that are quick to produce. Long episodes are more often stale
when they end, so a policy trained on the rest learns to be brief. The same holds for slow
environments, and for scores where hard prompts take longer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from buffer.items.rules.score_statistics import mean_and_deviation
from web.rules.amounts import percent

QUANTILES: Final = (0.1, 0.5, 0.9)
# Smaller samples do not characterise a distribution.
ENOUGH_ITEMS: Final = 20
# Smallest distance that is reported, if chance does not explain it.
NOTICEABLE: Final = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Items:
    """Items in one state; arrays hold one value per item."""

    length: NDArray[np.float64]
    """``[N]`` tokens of the longest sequence of a group, or env steps of a fragment."""
    score: NDArray[np.float64]
    """``[N]`` mean score of a group; NaN for fragments."""
    environments: Sequence[str]
    """``[N]`` names."""


class QuantitySummary(Struct, frozen=True, kw_only=True):
    """Mean and quantiles of one quantity over the items in one state; null without data."""

    mean: float | None
    p10: float | None
    p50: float | None
    p90: float | None


class BiasSide(Struct, frozen=True, kw_only=True):
    """Items in one state; length in tokens of the longest sequence, or in environment steps."""

    items: int
    length: QuantitySummary
    score: QuantitySummary
    environments: dict[str, int]


class BiasDistances(Struct, frozen=True, kw_only=True):
    """Distances between two sets of items, from 0 to 1; null if either is empty."""

    length: float | None
    """Kolmogorov–Smirnov: the largest gap between the two cumulative distributions."""
    score: float | None
    environment: float | None
    """Total variation: half the sum of the differences in share."""


def summary(values: NDArray[np.float64]) -> QuantitySummary:
    """Return mean and quantiles of the finite `values`, ``[N]``."""
    finite = values[np.isfinite(values)]
    if not len(finite):
        return QuantitySummary(mean=None, p10=None, p50=None, p90=None)
    # Of the halves: the difference of two finite values may be no finite number.
    p10, p50, p90 = (2 * float(value) for value in np.quantile(finite / 2, QUANTILES))
    return QuantitySummary(mean=mean_and_deviation(finite)[0], p10=p10, p50=p50, p90=p90)


def distances(one: Items, other: Items) -> BiasDistances:
    """Return the distances between two sets of items; None where either has no values."""
    return BiasDistances(
        length=kolmogorov_smirnov(one.length, other.length),
        score=kolmogorov_smirnov(one.score, other.score),
        environment=total_variation(one.environments, other.environments),
    )


def kolmogorov_smirnov(one: NDArray[np.float64], other: NDArray[np.float64]) -> float | None:
    """Return the largest gap between two cumulative distributions, ``[N]`` and ``[M]``."""
    one, other = np.sort(one[np.isfinite(one)]), np.sort(other[np.isfinite(other)])
    if not len(one) or not len(other):
        return None
    places = np.concatenate([one, other])
    gaps = np.searchsorted(one, places, side="right") / len(one) - (
        np.searchsorted(other, places, side="right") / len(other)
    )
    return float(np.abs(gaps).max())


def total_variation(one: Sequence[str], other: Sequence[str]) -> float | None:
    """Return half the sum of the absolute differences between the shares of each name."""
    if not one or not other:
        return None
    names, indices = np.unique([*one, *other], return_inverse=True)
    first = np.bincount(indices[: len(one)], minlength=len(names)) / len(one)
    second = np.bincount(indices[len(one) :], minlength=len(names)) / len(other)
    return float(np.abs(first - second).sum() / 2)


def chance_distance(count: int, other: int) -> float:
    """Return the distance that two samples of one distribution stay below, 99 times in 100.

    Source: the two-sample Kolmogorov–Smirnov test, 1.63 · √((n + m) / (n · m)).
    """
    return 1.63 * float(np.sqrt((count + other) / (count * other)))


def sentence(
    dropped: Items, served: Items, *, unit: str, names: tuple[str, str] = ("dropped", "served")
) -> str:
    """Return a sentence that describes the selection bias, if any.

    Args:
        dropped: Items that will never be trained on.
        served: Items that were trained on.
        unit: Plural noun for the items.
        names: Adjectives of the two.
    """
    one, other = names
    counts = len(dropped.length), len(served.length)
    if min(counts) < ENOUGH_ITEMS:
        return f"too few {unit} to compare: {counts[0]} {one}, {counts[1]} {other}"
    apart, noticeable = distances(dropped, served), max(NOTICEABLE, chance_distance(*counts))
    found = []
    if (apart.length or 0.0) > noticeable:
        lost, kept = _mean(dropped.length), _mean(served.length)
        is_longer = lost > kept
        times = lost / max(kept, 1e-9) if is_longer else kept / lost
        found.append(
            f"{one} {unit} are {times:.1f}× {'longer' if is_longer else 'shorter'} than {other} "
            f"ones: training is biased towards {'short' if is_longer else 'long'} {unit}"
        )
    if (apart.score or 0.0) > noticeable:
        higher = _mean(dropped.score) > _mean(served.score)
        found.append(
            f"{one} {unit} score {'higher' if higher else 'lower'} "
            f"({_mean(dropped.score):.3g} against {_mean(served.score):.3g})"
        )
    if (apart.environment or 0.0) > noticeable:
        places = sorted({*dropped.environments, *served.environments})
        share_of = {
            name: (
                dropped.environments.count(name) / counts[0],
                served.environments.count(name) / counts[1],
            )
            for name in places
        }
        worst = max(places, key=lambda name: share_of[name][0] - share_of[name][1])
        found.append(
            f"{worst or 'no environment'} makes up {percent(share_of[worst][0])} of {one} {unit} "
            f"and {percent(share_of[worst][1])} of {other} {unit}"
        )
    return "; ".join(found) or f"no difference found between {one} and {other} {unit}"


class ShortGroupCost(Struct, frozen=True, kw_only=True):
    """Rollouts that one short-group policy costs, by the run's recent groups."""

    policy: Literal["drop", "shrink", "refill"]
    lost: int
    """Rollouts that are not trained on: failed ones, and complete ones of dropped groups."""
    share: float
    """Lost rollouts, of all that were sampled."""


class GroupSizes(NamedTuple):
    """Rollouts of a group with failed ones, at its first attempt."""

    complete: int
    failed: int


def policy_costs(
    incomplete: Sequence[GroupSizes], *, complete_rollouts: int, least: int
) -> list[ShortGroupCost]:
    """Return the cost of each short-group policy.

    Args:
        incomplete: Groups of which rollouts failed.
        complete_rollouts: Rollouts of all other groups.
        least: Smallest group that `shrink` keeps.
    """
    failed = sum(one.failed for one in incomplete)
    siblings = sum(one.complete for one in incomplete)
    too_small = sum(one.complete for one in incomplete if one.complete < least)
    sampled = complete_rollouts + siblings + failed
    lost: dict[Literal["drop", "shrink", "refill"], int] = {
        "drop": failed + siblings,
        "shrink": failed + too_small,
        "refill": failed,
    }
    return [
        ShortGroupCost(policy=policy, lost=count, share=count / sampled if sampled else 0.0)
        for policy, count in lost.items()
    ]


def _mean(values: NDArray[np.float64]) -> float:
    return float(np.nanmean(values))
