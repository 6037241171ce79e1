"""Turn timings into figures: medians, paired ratios, and whether a mark is met."""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Better = Literal["more", "less"]


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the smallest value that at least `percent` of 100 of `values` do not exceed.

    Raises:
        ValueError: If there are no values.
    """
    if not values:
        raise ValueError("there is no percentile of nothing")
    ordered = sorted(values)
    return ordered[max(0, math.ceil(percent / 100 * len(ordered)) - 1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Paired:
    """The same measure taken of both, in turn: ours[i] and peer[i] belong to one moment.

    The ratio says how many times better ours is: above 1 whether more or less is better.
    """

    ours: Sequence[float]
    peer: Sequence[float]
    better: Better

    def __post_init__(self) -> None:
        if not self.ours or len(self.ours) != len(self.peer):
            raise ValueError(f"{len(self.ours)} of ours do not pair with {len(self.peer)}")

    @property
    def ratios(self) -> list[float]:
        """How many times better ours is, pair by pair."""
        if self.better == "more":
            return [ours / peer for ours, peer in zip(self.ours, self.peer, strict=True)]
        return [peer / ours for ours, peer in zip(self.ours, self.peer, strict=True)]

    def as_json(self) -> dict[str, Any]:
        """Return medians, the median of the paired ratios, and how far each spreads."""
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
    """Return a figure that no peer has a counterpart of, in the shape of a paired one."""
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
    return Paired(ours=[one for one, _ in taken], peer=[two for _, two in taken], better=better)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """One bound on one figure of a row; a figure that is missing is out of bounds."""

    figure: str
    at_least: float = -math.inf
    at_most: float = math.inf

    def holds(self, figures: Mapping[str, Any]) -> bool:
        """Return whether the figure lies within the bounds, both included."""
        value = figures.get(self.figure)
        return value is not None and self.at_least <= value <= self.at_most


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """What a row must reach, in words and as limits that must all hold."""

    words: str
    limits: tuple[Limit, ...]

    def is_met(self, figures: Mapping[str, Any]) -> bool:
        """Return whether every limit holds."""
        return all(limit.holds(figures) for limit in self.limits)


def _range(values: Sequence[float]) -> list[float]:
    return [_rounded(min(values)), _rounded(max(values))]


def _rounded(value: float) -> float:
    """Return four significant digits: timings hold no more."""
    return float(f"{value:.4g}")
