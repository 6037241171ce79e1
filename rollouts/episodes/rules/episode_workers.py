"""Tell workers whose episodes are unlike those of the others.

A worker's mean is far from the others' if its modified z-score (Iglewicz and Hoaglin, 1993: the
distance from the median over the median absolute deviation) is above 3.5. Where more than half of
the workers agree exactly, the mean absolute deviation takes the median's place.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

FAR: Final = 3.5
LEAST_WORKERS: Final = 4
"""Fewer have no middle to be far from."""
LEAST_EPISODES: Final = 5
"""Of a worker whose mean says anything."""
Mean = Literal["return_mean", "length_mean", "aborted_share"]
_OF_MEDIAN: Final = 0.6745
_OF_MEAN: Final = 1 / 1.253314


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerEpisodes:
    """What the episodes of one worker came to."""

    worker: int
    episodes: int
    return_mean: float
    length_mean: float
    aborted_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """A mean of one worker that is far from those of the others."""

    measure: Mean
    median: float
    """Over the workers."""
    score: float
    """How far, in modified z-scores; negative below the median."""


MEASURES: Final[tuple[Mean, ...]] = ("return_mean", "length_mean", "aborted_share")


def deviations(workers: Sequence[WorkerEpisodes]) -> Mapping[int, list[Deviation]]:
    """Return what is unlike the others, by worker; those that are like them are left out."""
    judged = [one for one in workers if one.episodes >= LEAST_EPISODES]
    found: dict[int, list[Deviation]] = {}
    if len(judged) < LEAST_WORKERS:
        return found
    for measure in MEASURES:
        values = np.array([getattr(one, measure) for one in judged], dtype=np.float64)
        median = float(np.median(values))
        for one, score in zip(judged, _scores(values, median), strict=True):
            if abs(score) > FAR:
                told = Deviation(measure=measure, median=median, score=score)
                found.setdefault(one.worker, []).append(told)
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
