"""Detection of workers whose episodes differ from those of the other workers.

A worker's mean is an outlier if its modified z-score (Iglewicz and Hoaglin, 1993: the distance from
the median over the median absolute deviation) is above 3.5. If more than half of the workers agree
exactly, the mean absolute deviation replaces the median absolute deviation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

FAR: Final = 3.5
LEAST_WORKERS: Final = 4
"""Fewest workers for which a median is meaningful."""
LEAST_EPISODES: Final = 5
"""Fewest episodes of a worker whose mean counts."""
Mean = Literal["return_mean", "length_mean", "aborted_share"]
_OF_MEDIAN: Final = 0.6745
_OF_MEAN: Final = 1 / 1.253314


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerEpisodes:
    """Statistics of one worker's episodes."""

    worker: int
    episodes: int
    return_mean: float
    length_mean: float
    aborted_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """A worker's mean that is an outlier."""

    measure: Mean
    median: float
    """Median over the workers."""
    score: float
    """Distance in modified z-scores; negative below the median."""


MEASURES: Final[tuple[Mean, ...]] = ("return_mean", "length_mean", "aborted_share")


def deviations(workers: Sequence[WorkerEpisodes]) -> Mapping[int, list[Deviation]]:
    """Return the outliers by worker; workers without outliers are omitted."""
    judged = [one for one in workers if one.episodes >= LEAST_EPISODES]
    found: dict[int, list[Deviation]] = {}
    if len(judged) < LEAST_WORKERS:
        return found
    for measure in MEASURES:
        values = np.array([getattr(one, measure) for one in judged], dtype=np.float64)
        median = float(np.median(values))
        for one, score in zip(judged, _scores(values, median), strict=True):
            if abs(score) > FAR:
                deviation = Deviation(measure=measure, median=median, score=score)
                found.setdefault(one.worker, []).append(deviation)
    return found


def _scores(values: np.ndarray[tuple[int], np.dtype[np.float64]], median: float) -> list[float]:
    distances = values - median
    middle = float(np.median(np.abs(distances)))
    if middle > 0:
        return list((_OF_MEDIAN * distances / middle).tolist())
    mean = float(np.abs(distances).mean())
    if mean == 0:
        return [0.0] * len(values)
    return list((_OF_MEAN * distances / mean).tolist())
