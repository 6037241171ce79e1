"""The scheduler of periodic jobs."""

from typing import Any

from celery.beat import PersistentScheduler


class SteadyScheduler(PersistentScheduler):
    """Celery's scheduler, for clocks that are set back.

    Celery computes when a job is due from the time of its last start. If that time is in the
    future, because the clock was set back since or before the process started, the job would not
    start until the clock has passed it.
    """

    def tick(self, *args: Any, **options: Any) -> float:
        """Start a job that is due, and return the seconds until the next one."""
        now = self.app.now()
        ahead = [entry for entry in self.schedule.values() if entry.last_run_at > now]
        for entry in ahead:
            entry.last_run_at = now
        if ahead:
            self._heap = None  # times at which jobs are due: computed again
        seconds: float = super().tick(*args, **options)
        return seconds
