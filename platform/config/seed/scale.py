"""Amount of sample data, and the time span of each run."""

import zlib
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

import numpy as np

PREFIX: Final = "seed-"
"""Prefix of the names of sample runs, which separates them from real ones."""
ACTOR: Final = "user:grace"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Amounts of data."""

    versions: int
    """Policy versions, one for each train step of a fleet run; also its batches."""
    metric_steps: int
    """Train steps for which metrics are written."""
    group_pushes: int
    """Pushes of groups by outside environments."""
    finished_runs: int
    """Completed runs of a sweep, to compare with each other."""

    @property
    def halved(self) -> "Scale":
        """Half as many versions, for runs that exist several times."""
        return replace(self, versions=max(self.versions // 2, 4))


LARGE: Final = Scale(versions=24, metric_steps=600, group_pushes=48, finished_runs=3)
SMALL: Final = Scale(versions=6, metric_steps=60, group_pushes=14, finished_runs=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTimeline:
    """One sample run: its name, its time span, and its random numbers."""

    name: str
    scale: Scale
    began_at: datetime
    ends_at: datetime

    @property
    def random(self) -> np.random.Generator:
        """Return a generator seeded by the name, so that each run is reproducible."""
        return np.random.default_rng(zlib.crc32(self.name.encode()))

    @property
    def length(self) -> timedelta:
        """Return the duration of the run."""
        return self.ends_at - self.began_at

    def at(self, part: float) -> datetime:
        """Return the time at `part`, 0 to 1, of the run."""
        return self.began_at + self.length * part


def timeline(
    name: str, *, scale: Scale, now: datetime, minutes_ago: float, minutes: float = 0.0
) -> RunTimeline:
    """Return the timeline of a run that began `minutes_ago`; without `minutes` it still runs."""
    began_at = now - timedelta(minutes=minutes_ago)
    ends_at = began_at + timedelta(minutes=minutes) if minutes else now
    return RunTimeline(name=f"{PREFIX}{name}", scale=scale, began_at=began_at, ends_at=ends_at)
