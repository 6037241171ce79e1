"""Distribution of a value of episodes, and its change over the life of a run."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

COLUMNS: Final = 48
BINS: Final = 24
_CUTS: Final = (10, 50, 90)


class Sample(NamedTuple):
    """Episodes (or groups) that ended together."""

    at: datetime
    task: str
    """Environment or lesson of the episodes."""
    mode: str
    values: Sequence[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """Counts of one time interval."""

    at: datetime
    """Beginning of the interval."""
    counts: list[int]
    """Counts by bin, lowest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpread:
    """Distribution of a value in one environment or lesson, over all of the time."""

    task: str
    mode: str
    counted: int
    mean: float
    p10: float
    p50: float
    p90: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Distribution of a value over time, in bins of equal width from `least` to `most`."""

    least: float | None
    """Least counted value, as `most` is the greatest; None without values."""
    most: float | None
    columns: list[Column]
    """Intervals of equal length; those without counts had no ended episodes."""
    tasks: list[TaskSpread]
    counted: int


def spread_of(samples: Sequence[Sample], *, task: str = "", mode: str = "") -> Spread:
    """Return the distribution of the samples' values; values that are not finite are ignored.

    Args:
        samples: In any order.
        task: Environment or lesson of the returned columns; empty for all. The distributions by
            task always cover all of them.
        mode: Mode of the returned columns, `train` or `eval`; empty for both.
    """
    tasks = _tasks(samples)
    selected = [one for one in samples if task in ("", one.task) and mode in ("", one.mode)]
    values, owners = _flat(selected)
    if not values.size:
        return Spread(least=None, most=None, columns=[], tasks=tasks, counted=0)
    first = min(one.at for one in selected)
    # The last sample belongs to the last column. The time span is positive even for a single
    # instant.
    seconds = max(1.0, (max(one.at for one in selected) - first).total_seconds() * (1 + 1e-9))
    since = np.array([(one.at - first).total_seconds() for one in selected])[owners]
    least, most = float(values.min()), float(values.max())
    counts, _, _ = np.histogram2d(
        since,
        values,
        bins=(COLUMNS, BINS),
        range=((0.0, seconds), (least, most if most > least else least + 1.0)),
    )
    return Spread(
        least=least,
        most=most,
        columns=[
            Column(at=first + timedelta(seconds=place * seconds / COLUMNS), counts=row)
            for place, row in enumerate(counts.astype(int).tolist())
        ],
        tasks=tasks,
        counted=int(values.size),
    )


def _flat(samples: Sequence[Sample]) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Return all finite values, and the index of each one's sample."""
    sizes = [len(one.values) for one in samples]
    values = np.array([value for one in samples for value in one.values], dtype=np.float64)
    owners = np.repeat(np.arange(len(samples)), sizes)
    finite = np.isfinite(values)
    return values[finite], owners[finite]


def _tasks(samples: Sequence[Sample]) -> list[TaskSpread]:
    of_task: dict[tuple[str, str], list[Sample]] = defaultdict(list)
    for one in samples:
        of_task[one.task, one.mode].append(one)
    found = []
    for (task, mode), mine in sorted(of_task.items()):
        values, _ = _flat(mine)
        if not values.size:
            continue
        p10, p50, p90 = np.percentile(values, _CUTS).tolist()
        found.append(
            TaskSpread(
                task=task,
                mode=mode,
                counted=int(values.size),
                mean=float(values.mean()),
                p10=p10,
                p50=p50,
                p90=p90,
            )
        )
    return found
