"""Compute figures from timings: medians, paired ratios, and whether a mark is met."""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Better = Literal["more", "less"]


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the smallest value that is not exceeded by at least `percent` % of `values`.

    Raises:
        ValueError: If there are no values.
    """
    if not values:
        raise ValueError("a percentile needs at least one value")
    ordered = sorted(values)
    return ordered[max(0, math.ceil(percent / 100 * len(ordered)) - 1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Paired:
    """One measure of both sides, taken in turn: ours[i] and peer[i] are measured close in time.

    The ratio is how many times better ours is: above 1 whether more or less is better.
    """

    ours: Sequence[float]
    peer: Sequence[float]
    better: Better

    def __post_init__(self) -> None:
        if not self.ours or len(self.ours) != len(self.peer):
            raise ValueError(f"{len(self.ours)} of ours do not pair with {len(self.peer)}")

    @property
    def ratios(self) -> list[float]:
        """Ratio of each pair: how many times better ours is."""
        if self.better == "more":
            return [ours / peer for ours, peer in zip(self.ours, self.peer, strict=True)]
        return [peer / ours for ours, peer in zip(self.ours, self.peer, strict=True)]

    def as_json(self) -> dict[str, Any]:
        """Return medians, the median of the paired ratios, and the range of each."""
        return {
            "ours": _rounded(statistics.median(self.ours)),
            "peer": _rounded(statistics.median(self.peer)),
            "ratio": _rounded(statistics.median(self.ratios)),
            "pairs": len(self.ours),
            "spread": {
                "ours": _range(self.ours),
                "peer": _range(self.peer),
                "ratio": _range(self.ratios),
            },
        }


def alone(ours: Sequence[float]) -> dict[str, Any]:
    """Return figures of a measure without a peer, in the shape of paired ones."""
    return {
        "ours": _rounded(statistics.median(ours)),
        "peer": None,
        "ratio": None,
        "pairs": len(ours),
        "spread": {"ours": _range(ours)},
    }


def in_turn(
    pairs: int, *, ours: Callable[[], float], peer: Callable[[], float], better: Better
) -> Paired:
    """Measure ours and the peer's alternately, `pairs` times each."""
    taken = [(ours(), peer()) for _ in range(pairs)]
    return Paired(
        ours=[rolldeck_figure for rolldeck_figure, _ in taken],
        peer=[two for _, two in taken],
        better=better,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A range for one figure of a row; a missing figure is out of range."""

    figure: str
    at_least: float = -math.inf
    at_most: float = math.inf

    def holds(self, figures: Mapping[str, Any]) -> bool:
        """Return whether the figure is within the range, bounds included."""
        value = figures.get(self.figure)
        return value is not None and self.at_least <= value <= self.at_most


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A target of a row, in words and as limits that must all hold."""

    words: str
    limits: tuple[Limit, ...]

    def is_met(self, figures: Mapping[str, Any]) -> bool:
        """Return whether every limit holds."""
        return all(limit.holds(figures) for limit in self.limits)


def _range(values: Sequence[float]) -> list[float]:
    return [_rounded(min(values)), _rounded(max(values))]


def _rounded(value: float) -> float:
    """Round to four significant digits, the precision of timings."""
    return float(f"{value:.4g}")
