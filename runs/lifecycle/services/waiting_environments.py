"""Record environments that ask to register before a trainer has started."""

import threading
from datetime import datetime, timedelta
from typing import Final

from runs.events.services import record_event

KIND: Final = "environment_waits"
RECORDED_EVERY: Final = timedelta(minutes=1)
"""One environment asks once a second, and is recorded this often by one process."""
NAMES_AT_MOST: Final = 1000
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


def _forget(*, before: datetime) -> None:
    for key in [key for key, at in _recorded.items() if at < before]:
        del _recorded[key]
