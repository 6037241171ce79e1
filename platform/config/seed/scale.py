"""Say how much is written, and when each part of it is said to have happened."""

import zlib
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

import numpy as np

PREFIX: Final = "seed-"
"""Every seeded run's name begins so: what is real is never taken for it."""
ACTOR: Final = "user:grace"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How much of everything."""

    versions: int
    """Of the policy, one for each train step of a fleet run; also its batches."""
    metric_steps: int
    """Train steps for which metrics are written."""
    group_pushes: int
    """Pushes of groups by outside environments."""
    finished_runs: int
    """Runs beside the large ones, to compare with each other."""

    @property
    def halved(self) -> "Scale":
        """Half as many versions, for runs of which there are several."""
        return replace(self, versions=max(self.versions // 2, 4))


LARGE: Final = Scale(versions=24, metric_steps=600, group_pushes=48, finished_runs=3)
SMALL: Final = Scale(versions=6, metric_steps=60, group_pushes=14, finished_runs=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """One seeded run: its name, its time, and its own random numbers."""

    name: str
    scale: Scale
    began_at: datetime
    ends_at: datetime

    @property
    def random(self) -> np.random.Generator:
        """Return a generator that gives the same numbers to the same run on every deck."""
        return np.random.default_rng(zlib.crc32(self.name.encode()))

    @property
    def length(self) -> timedelta:
        """Return how long it takes."""
        return self.ends_at - self.began_at

    def at(self, part: float) -> datetime:
        """Return the moment at which `part` of the story, 0 to 1, has been told."""
        return self.began_at + self.length * part


def story(
    name: str, *, scale: Scale, now: datetime, minutes_ago: float, minutes: float = 0.0
) -> Story:
    """Return the story of a run that began so long ago; without `minutes` it goes on till now."""
    began_at = now - timedelta(minutes=minutes_ago)
    ends_at = began_at + timedelta(minutes=minutes) if minutes else now
    return Story(name=f"{PREFIX}{name}", scale=scale, began_at=began_at, ends_at=ends_at)
