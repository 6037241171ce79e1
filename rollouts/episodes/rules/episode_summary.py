"""Summaries of episode windows over environments, weighted by episodes or by environment.

An environment with short episodes ends many of them. The *weighted* mean is the expected value of
an episode drawn at random; the *unweighted* mean is that of an environment drawn at random.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

PERCENTILES: Final = (5, 25, 50, 75, 95)


@dataclass(frozen=True, slots=True)
class Window:
    """One stored window of one environment and mode."""

    environment: str
    mode: str
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


class Means(NamedTuple):
    """Means over episodes or over environments."""

    total_return: float
    discounted_return: float
    length: float


@dataclass(frozen=True, slots=True)
class Task:
    """All windows of one environment and mode together."""

    environment: str
    mode: str
    count: int
    means: Means
    percentiles: Mapping[int, float]
    """Percentiles of the returns kept in windows; empty if every episode was aborted."""
    length_percentiles: Mapping[int, float]
    """Percentiles of the lengths of the same episodes, in env steps."""
    terminated: int
    truncated: int
    aborted: int

    @property
    def described(self) -> int:
        """Number of episodes in the means: those not aborted, unless all were."""
        return self.count - self.aborted or self.count


def tasks(windows: Iterable[Window]) -> list[Task]:
    """Return each environment and mode once, in the order of their names."""
    found: dict[tuple[str, str], list[Window]] = {}
    for window in windows:
        found.setdefault((window.environment, window.mode), []).append(window)
    return [_task(found[key]) for key in sorted(found)]


def weighted(of: Sequence[Task]) -> Means | None:
    """Return the means over episodes; None without any."""
    return _mean([task.means for task in of], [task.described for task in of])


def unweighted(of: Sequence[Task]) -> Means | None:
    """Return the means over environments, each counted once; None without any."""
    return _mean([task.means for task in of], [1] * len(of))


def _task(windows: Sequence[Window]) -> Task:
    means = [Means(w.return_mean, w.discounted_return_mean, w.length_mean) for w in windows]
    # A window with only aborted episodes is ignored if there are others.
    whole = [w.count - w.aborted for w in windows]
    weights = whole if any(whole) else [w.described for w in windows]
    mean = _mean(means, weights)
    assert mean is not None  # noqa: S101 a window has an episode
    return Task(
        environment=windows[0].environment,
        mode=windows[0].mode,
        count=sum(w.count for w in windows),
        means=mean,
        percentiles=_percentiles(one for window in windows for one in window.returns),
        length_percentiles=_percentiles(one for window in windows for one in window.lengths),
        terminated=sum(w.terminated for w in windows),
        truncated=sum(w.truncated for w in windows),
        aborted=sum(w.aborted for w in windows),
    )


def _percentiles(values: Iterable[float]) -> dict[int, float]:
    found = list(values)
    if not found:
        return {}
    return dict(zip(PERCENTILES, np.percentile(found, PERCENTILES).tolist(), strict=True))


def _mean(rows: Sequence[Means], weights: Sequence[int]) -> Means | None:
    if not rows:
        return None
    return Means(*np.average(np.asarray(rows), axis=0, weights=weights).tolist())
