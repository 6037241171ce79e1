"""Whether the background jobs run, as judged by the heartbeats of the processes that run them."""

from dataclasses import dataclass
from typing import Final

from web.rules.amounts import duration

SILENT_SECONDS: Final = 45.0
"""Time without a heartbeat after which a process counts as down; one is due every 15 s."""
IDLE_SECONDS: Final = 90.0
"""Time without a started job; one is due every 2 s, and a hanging job ends after 60 s."""
STARTING_SECONDS: Final = 30.0
"""Time within which all processes of a starting server send a heartbeat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsHealth:
    """Ages of the newest signs of life of the background jobs. None: never seen."""

    observed_seconds: float
    """Time for which a web process has been running; 0 if none sends heartbeats."""
    worker_seconds: float | None = None
    """Since the last heartbeat of a process that runs jobs."""
    scheduler_seconds: float | None = None
    """Since the last heartbeat of beat, which schedules them."""
    job_seconds: float | None = None
    """Since a job was last started."""

    @property
    def age_seconds(self) -> float:
        """Return the time since a job was last started; without any, since the server's start."""
        ages = (self.job_seconds, self.worker_seconds, self.observed_seconds)
        return next(age for age in ages if age is not None)

    @property
    def problem(self) -> str:
        """Return why no jobs run, without ages; empty if they run, or the server has just started.

        Only a web process that sends heartbeats is evidence that the jobs should run too.
        """
        if self.observed_seconds < STARTING_SECONDS:
            return ""
        silent = [
            name
            for name, age in (
                ("the process that runs them", self.worker_seconds),
                ("the scheduler", self.scheduler_seconds),
            )
            if (self.observed_seconds if age is None else age) > SILENT_SECONDS
        ]
        if silent:
            return f"no heartbeats from {' and '.join(silent)}"
        if self.job_seconds is not None and self.job_seconds > IDLE_SECONDS:
            return "no job is started, although their processes send heartbeats"
        return ""

    @property
    def evidence(self) -> list[str]:
        """Return the ages, in words."""
        ages = (
            ("last heartbeat of a process that runs jobs", self.worker_seconds),
            ("last heartbeat of the scheduler", self.scheduler_seconds),
            ("last start of a job", self.job_seconds),
        )
        return [
            f"{what}: {'none received' if seconds is None else f'{duration(seconds)} ago'}"
            for what, seconds in ages
        ]
