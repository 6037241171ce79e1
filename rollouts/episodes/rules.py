"""Summaries and distributions of episodes.

An environment with short episodes ends many of them. The *weighted* mean is the expected value of
an episode drawn at random; the *unweighted* mean is that of an environment drawn at random.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import astuple
from numpy.typing import NDArray

BINS: Final = 24
_CUTS: Final = (10, 50, 90)
PERCENTILES: Final = (5, 25, 50, 75, 95)
Mode = Literal["train", "eval"]


class Sample(NamedTuple):
    """Episodes (or groups) that ended together."""

    task: str
    """Environment or lesson of the episodes."""
    mode: Mode
    values: Sequence[float]


class TaskSpread(Struct, frozen=True, kw_only=True):
    """Distribution in one environment or lesson, over the life of the run."""

    task: str
    """Empty for groups without an environment."""
    mode: Mode
    counted: int
    mean: float
    p10: float
    p50: float
    p90: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Distribution of a value, in bins of equal width from `least` to `most`."""

    least: float | None
    """Least counted value, as `most` is the greatest; None without values."""
    most: float | None
    counts: list[int]
    """Counts by bin, lowest first; empty without values."""
    tasks: list[TaskSpread]
    counted: int


def spread_of(samples: Sequence[Sample], *, task: str = "", mode: str = "") -> Spread:
    """Return the distribution of the samples' values; values that are not finite are ignored.

    Args:
        samples: In any order.
        task: Environment or lesson of the counts; empty for all. The distributions by
            task always cover all of them.
        mode: Mode of the counts, `train` or `eval`; empty for both.
    """
    of_task: dict[tuple[str, Mode], list[Sample]] = defaultdict(list)
    for one in samples:
        of_task[one.task, one.mode].append(one)
    spreads = []
    for (name, name_mode), mine in sorted(of_task.items()):
        values = _flat(mine)
        if not values.size:
            continue
        p10, p50, p90 = np.percentile(values, _CUTS).tolist()
        spread = TaskSpread(
            task=name,
            mode=name_mode,
            counted=int(values.size),
            mean=float(values.mean()),
            p10=p10,
            p50=p50,
            p90=p90,
        )
        spreads.append(spread)
    selected = [one for one in samples if task in ("", one.task) and mode in ("", one.mode)]
    values = _flat(selected)
    if not values.size:
        return Spread(least=None, most=None, counts=[], tasks=spreads, counted=0)
    least, most = float(values.min()), float(values.max())
    counts, _ = np.histogram(values, BINS, range=(least, most if most > least else least + 1.0))
    return Spread(
        least=least, most=most, counts=counts.tolist(), tasks=spreads, counted=int(values.size)
    )


def _flat(samples: Sequence[Sample]) -> NDArray[np.float64]:
    """Return all finite values."""
    values = np.array([value for one in samples for value in one.values], dtype=np.float64)
    return values[np.isfinite(values)]


@dataclass(frozen=True, slots=True)
class Window:
    """One stored window of one environment and mode."""

    environment: str
    mode: Mode
    count: int
    """Number of episodes, including `aborted` ones."""
    return_mean: float
    discounted_return_mean: float
    length_mean: float
    terminated: int
    truncated: int
    aborted: int
    returns: Sequence[float]
    """Returns of its last episodes that were not aborted."""
    lengths: Sequence[int] = ()
    """Env steps of the same episodes; empty in windows of older fleets."""

    @property
    def described(self) -> int:
        """Number of episodes in the means: those not aborted, unless all were."""
        return self.count - self.aborted or self.count


class EpisodeMeans(Struct, frozen=True):
    """Means of episodes that were not aborted."""

    total_return: float
    discounted_return: float
    length: float
    """Env steps."""


class TaskEpisodes(Struct, frozen=True, kw_only=True):
    """The episodes of one environment and mode."""

    environment: str
    mode: Mode
    count: int
    terminated: int
    truncated: int
    aborted: int
    means: EpisodeMeans
    percentiles: dict[str, float]
    """Percentiles 5, 25, 50, 75 and 95 of the stored returns: the last 100 of each report."""
    length_percentiles: dict[str, float]
    """The same percentiles of the lengths, in env steps."""

    @property
    def described(self) -> int:
        """Number of episodes in the means: those not aborted, unless all were."""
        return self.count - self.aborted or self.count


def tasks(windows: Iterable[Window]) -> list[TaskEpisodes]:
    """Return each environment and mode once, in the order of their names."""
    by_task: dict[tuple[str, Mode], list[Window]] = defaultdict(list)
    for window in windows:
        by_task[window.environment, window.mode].append(window)
    found = []
    for (environment, mode), mine in sorted(by_task.items(), key=lambda one: one[0]):
        # A window with only aborted episodes is ignored if there are others.
        whole = [w.count - w.aborted for w in mine]
        means = _mean(
            [EpisodeMeans(w.return_mean, w.discounted_return_mean, w.length_mean) for w in mine],
            weights=whole if any(whole) else [w.described for w in mine],
        )
        assert means is not None  # noqa: S101 a window has an episode
        task = TaskEpisodes(
            environment=environment,
            mode=mode,
            count=sum(w.count for w in mine),
            terminated=sum(w.terminated for w in mine),
            truncated=sum(w.truncated for w in mine),
            aborted=sum(w.aborted for w in mine),
            means=means,
            percentiles=_percentiles(value for w in mine for value in w.returns),
            length_percentiles=_percentiles(value for w in mine for value in w.lengths),
        )
        found.append(task)
    return found


def weighted(of: Sequence[TaskEpisodes]) -> EpisodeMeans | None:
    """Return the means over episodes; None without any."""
    return _mean([task.means for task in of], weights=[task.described for task in of])


def unweighted(of: Sequence[TaskEpisodes]) -> EpisodeMeans | None:
    """Return the means over environments, each counted once; None without any."""
    return _mean([task.means for task in of], weights=[1] * len(of))


def _percentiles(values: Iterable[float]) -> dict[str, float]:
    found = list(values)
    if not found:
        return {}
    cuts = np.percentile(found, PERCENTILES).tolist()
    return dict(zip(map(str, PERCENTILES), cuts, strict=True))


def _mean(rows: Sequence[EpisodeMeans], *, weights: Sequence[int]) -> EpisodeMeans | None:
    if not rows:
        return None
    values = np.asarray([astuple(row) for row in rows])
    return EpisodeMeans(*np.average(values, axis=0, weights=weights).tolist())
