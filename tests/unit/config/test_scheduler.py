"""Periodic jobs start at their intervals, also after the clock was set back."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from celery import Celery

from config.scheduler import SteadyScheduler

BEGIN = datetime(2026, 3, 4, 12, tzinfo=UTC)
PERIODS = {"short": 3.0, "long": 600.0}


class Clock:
    """A clock that a test sets, and the jobs that a scheduler starts by it."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.now, self.started = BEGIN, list[str]()
        self._folder, self._patch = folder, patch
        self.scheduler = self.restart()

    def restart(self) -> SteadyScheduler:
        """Start the scheduler again, with the times that it has stored."""
        if hasattr(self, "scheduler"):
            self.scheduler.close()
        app = Celery(set_as_current=False)
        schedule = {name: {"task": name, "schedule": each} for name, each in PERIODS.items()}
        app.conf.update(timezone="UTC", beat_schedule=schedule, broker_url="memory://")
        # Entries that are read from the file belong to the current application.
        self._patch.setattr(Celery, "now", lambda _: self.now)
        scheduler = SteadyScheduler(
            app, max_interval=300, schedule_filename=str(self._folder / "schedule")
        )
        self._patch.setattr(
            scheduler, "apply_entry", lambda entry, **_: self.started.append(entry.name)
        )
        self.scheduler = scheduler
        return scheduler

    def wait(self, seconds: float) -> list[str]:
        """Tick for a time as Celery does, and return the jobs that were started."""
        self.started.clear()
        end = self.now + timedelta(seconds=seconds)
        while self.now < end:
            pause = self.scheduler.tick()
            self.now = min(end, self.now + timedelta(seconds=max(pause, 0.001)))
        return self.started

    def set(self, seconds: float) -> None:
        """Set the clock forward, or back."""
        self.now += timedelta(seconds=seconds)


@pytest.fixture
def clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(tmp_path, monkeypatch)


def test_jobs_start_at_their_intervals(clock: Clock) -> None:
    started = clock.wait(1201)

    assert (started.count("short"), started.count("long")) == (400, 2)


@pytest.mark.parametrize("step", [-600, -5, -86_400, 600])
@pytest.mark.parametrize("is_restarted", [False, True])
def test_jobs_start_at_their_intervals_after_a_step_of_the_clock(
    clock: Clock, step: float, is_restarted: bool
) -> None:
    clock.wait(100)
    clock.set(step)
    if is_restarted:
        clock.restart()

    assert clock.wait(31).count("short") in {10, 11}
    assert clock.wait(601).count("long") == 1


def test_a_job_does_not_start_early_when_the_clock_is_set_back(clock: Clock) -> None:
    clock.wait(2)
    clock.set(-1)

    assert clock.wait(1.9) == []
