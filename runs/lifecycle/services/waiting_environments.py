"""Environments that ask to register before a trainer has started."""

import threading
from datetime import datetime, timedelta
from typing import Final

from runs.events.models import RunEvent
from runs.events.services import record_event
from runs.lifecycle.models import Run

KIND: Final = "environment_waits"
RECORDED_EVERY: Final = timedelta(minutes=1)
"""One environment asks once a second, and is recorded this often by one process."""
NAMES_AT_MOST: Final = 1000
SHOWN_AT_MOST: Final = 5
"""Maximum number of waiting environments in one answer."""
_recorded: dict[tuple[int, str], datetime] = {}
_lock = threading.Lock()


def record_waiting_environment(*, run_id: int, name: str, now: datetime) -> None:
    """Record an event of the run, at most once in :data:`RECORDED_EVERY` for each name."""
    with _lock:
        if len(_recorded) >= NAMES_AT_MOST:
            _forget(before=now - RECORDED_EVERY)
        last = _recorded.get((run_id, name))
        if len(_recorded) >= NAMES_AT_MOST or (last is not None and now - last < RECORDED_EVERY):
            return
        _recorded[run_id, name] = now
    record_event(
        run_id=run_id,
        kind=KIND,
        message=f"environment {name} waits for a trainer to register and ask for a batch",
        actor=name,
        details={"name": name},
        now=now,
    )


def waiting_environments(run: Run, *, now: datetime) -> list[str]:
    """Return the environments that requested registration and wait for a trainer, by name."""
    if run.has_fleet or run.trainer_started_at is not None:
        return []
    events = RunEvent.objects.filter(run=run, kind=KIND, at__gte=now - 2 * RECORDED_EVERY)
    return list(events.order_by("actor").values_list("actor", flat=True).distinct()[:SHOWN_AT_MOST])


def _forget(*, before: datetime) -> None:
    for key in [key for key, at in _recorded.items() if at < before]:
        del _recorded[key]
