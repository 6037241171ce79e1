"""The time span, owner and random numbers of a sample run."""

import zlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import blake2s
from typing import Final

import numpy as np

from runs.access.models import User

PREFIX: Final = "seed-"
"""Prefix of the names of sample runs."""
ACTOR: Final = "user:grace"
VERSIONS: Final = 6
"""Policy versions, one for each train step of a run; also its batches."""
METRIC_STEPS: Final = 60
"""Train steps for which metrics are written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTimeline:
    """One sample run: its name and its time span."""

    name: str
    began_at: datetime
    ends_at: datetime

    @property
    def random(self) -> np.random.Generator:
        """Return a generator seeded by the name, so that each run is reproducible."""
        return np.random.default_rng(zlib.crc32(self.name.encode()))

    @property
    def length(self) -> timedelta:
        return self.ends_at - self.began_at

    def at(self, part: float) -> datetime:
        """Return the time at `part`, 0 to 1, of the run."""
        return self.began_at + self.length * part


def timeline(name: str, *, now: datetime, minutes_ago: float, minutes: float = 0.0) -> RunTimeline:
    """Return the timeline of a run that began `minutes_ago`; without `minutes` it still runs."""
    began_at = now - timedelta(minutes=minutes_ago)
    ends_at = began_at + timedelta(minutes=minutes) if minutes else now
    return RunTimeline(name=f"{PREFIX}{name}", began_at=began_at, ends_at=ends_at)


def owner() -> User:
    """Return the user of :data:`ACTOR`, who has no password."""
    return User.objects.get_or_create(username=ACTOR.removeprefix("user:"))[0]


def incarnation_of(worker: int, *, restarts: int = 0) -> str:
    """Return the id of a worker process, in the format of real ones."""
    token = blake2s(f"{worker}.{restarts}".encode(), digest_size=3).hexdigest()
    return f"1-a12c82c7-{token}"


def worker_id(worker: int) -> str:
    """Return the id of a worker as used in its fragments and groups."""
    return f"w{worker}@{incarnation_of(worker)}"
