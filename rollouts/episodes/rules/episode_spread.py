"""Distribution of a value of episodes over the life of a run."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

BINS: Final = 24
_CUTS: Final = (10, 50, 90)


class Sample(NamedTuple):
    """Episodes (or groups) that ended together."""

    task: str
    """Environment or lesson of the episodes."""
    mode: str
    values: Sequence[float]


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
    tasks = _tasks(samples)
    selected = [one for one in samples if task in ("", one.task) and mode in ("", one.mode)]
    values = _flat(selected)
    if not values.size:
        return Spread(least=None, most=None, counts=[], tasks=tasks, counted=0)
    least, most = float(values.min()), float(values.max())
    counts, _ = np.histogram(values, BINS, range=(least, most if most > least else least + 1.0))
    return Spread(
        least=least, most=most, counts=counts.tolist(), tasks=tasks, counted=int(values.size)
    )


def _flat(samples: Sequence[Sample]) -> NDArray[np.float64]:
    """Return all finite values."""
    values = np.array([value for one in samples for value in one.values], dtype=np.float64)
    return values[np.isfinite(values)]


def _tasks(samples: Sequence[Sample]) -> list[TaskSpread]:
    of_task: dict[tuple[str, str], list[Sample]] = defaultdict(list)
    for one in samples:
        of_task[one.task, one.mode].append(one)
    found = []
    for (task, mode), mine in sorted(of_task.items()):
        values = _flat(mine)
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
