"""Say how a number of episodes is spread, and how that changed over the life of a run."""

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
    """Their environment or lesson."""
    mode: str
    values: Sequence[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A stretch of time."""

    at: datetime
    """When it begins."""
    counts: list[int]
    """By bin, lowest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpread:
    """How a number is spread in one environment or lesson, over all of the time."""

    task: str
    mode: str
    counted: int
    mean: float
    p10: float
    p50: float
    p90: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """How a number is spread over time, in bins of equal width from `least` to `most`."""

    least: float | None
    """Of what was counted, as `most`; None where nothing was."""
    most: float | None
    columns: list[Column]
    """Equally long; nothing ended in those without counts."""
    tasks: list[TaskSpread]
    counted: int


def spread_of(samples: Sequence[Sample], *, task: str = "", mode: str = "") -> Spread:
    """Return how the values of samples are spread; those that are not finite are left out.

    Args:
        samples: In any order.
        task: The only environment or lesson whose columns are wanted; empty for all. Tasks are
            summed up whatever is wanted.
        mode: The same for `train` and `eval`.
    """
    tasks = _tasks(samples)
    wanted = [one for one in samples if task in ("", one.task) and mode in ("", one.mode)]
    values, owners = _flat(wanted)
    if not values.size:
        return Spread(least=None, most=None, columns=[], tasks=tasks, counted=0)
    first = min(one.at for one in wanted)
    # The last sample belongs to the last column, and a run of one moment has a length too.
    seconds = max(1.0, (max(one.at for one in wanted) - first).total_seconds() * (1 + 1e-9))
    since = np.array([(one.at - first).total_seconds() for one in wanted])[owners]
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
    """Return all finite values, and the sample that each is of."""
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
