"""Graceful shutdown of a worker."""

from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final

from rollouts.fleet.manager.workers import WorkerHandle
from rollouts.fleet.worker.messages import WorkerState

STOP_SECONDS: Final = 5.0
"""Time a worker has to end by itself."""


class GracefulShutdown:
    """Shutdown request to one worker, and its final state."""

    def __init__(self) -> None:
        """Start without a request."""
        self._future: Future[Any] | None = None
        self._asked_at = 0.0

    @property
    def is_requested(self) -> bool:
        """Whether the worker was asked to end."""
        return self._future is not None

    def request(self, handle: WorkerHandle, now: float) -> Future[Any]:
        """Ask the worker to send its items and end; return a future of its final state."""
        self._future, self._asked_at = handle.submit("stop"), now
        return self._future

    def is_complete(self, handle: WorkerHandle, now: float, *, is_due: bool) -> bool:
        """Return whether the worker has ended; ask it to end if `is_due` and not asked yet."""
        if self.is_requested:
            return self.is_over(now)
        if is_due:
            self.request(handle, now)
        return False

    def is_over(self, now: float) -> bool:
        """Return whether the worker has ended or exceeded its time limit."""
        future = self._future
        return future is None or future.done() or now - self._asked_at > STOP_SECONDS

    def pop_final_state(self) -> WorkerState | None:
        """Return the worker's final state if it has arrived, and reset the request."""
        future, self._future = self._future, None
        if future is not None and future.done():
            with suppress(Exception):
                state: WorkerState = future.result()
                return state
        return None
