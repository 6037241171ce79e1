"""Ask a worker to end by itself, and take its last words."""

from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final

from rollouts.fleet.manager.workers import WorkerHandle
from rollouts.fleet.worker.messages import WorkerState

STOP_SECONDS: Final = 5.0
"""How long a worker may take to end by itself."""


class Farewell:
    """One worker's end, asked for and awaited."""

    def __init__(self) -> None:
        """Ask nothing yet."""
        self._future: Future[Any] | None = None
        self._asked_at = 0.0

    @property
    def is_asked(self) -> bool:
        """Whether the worker was asked to end."""
        return self._future is not None

    def ask(self, handle: WorkerHandle, now: float) -> Future[Any]:
        """Ask the worker to send what it can and to end; return what becomes its last state."""
        self._future, self._asked_at = handle.submit("stop"), now
        return self._future

    def has_come(self, handle: WorkerHandle, now: float, *, is_due: bool) -> bool:
        """Return whether the worker has ended; ask it to once that `is_due`."""
        if self.is_asked:
            return self.is_over(now)
        if is_due:
            self.ask(handle, now)
        return False

    def is_over(self, now: float) -> bool:
        """Return whether the worker has ended, or had the time to."""
        future = self._future
        return future is None or future.done() or now - self._asked_at > STOP_SECONDS

    def take(self) -> WorkerState | None:
        """Return how the worker was in the end, if it said so; ask nothing more."""
        future, self._future = self._future, None
        if future is not None and future.done():
            with suppress(Exception):
                state: WorkerState = future.result()
                return state
        return None
