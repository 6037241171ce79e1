"""Response timeouts of workers."""

from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final

from rollouts.fleet.manager.workers import WorkerHandle

ANSWER_SECONDS: Final = 15.0
"""Time limit for an answer, after which a worker counts as hung."""
START_SECONDS: Final = 180.0
"""Time limit for each answer until the worker runs, not counting the wait for cluster resources.

A worker imports torch and creates its environments after its first answer. On a loaded machine, its
interpreter may then answer nothing for longer than :data:`ANSWER_SECONDS`.
"""
REPORT_WAITING_AFTER_SECONDS: Final = 2.0
OBSTACLE_CHECK_SECONDS: Final = 1.0


@dataclass(slots=True)
class Call:
    """A command to a worker, with the future of its answer."""

    future: Future[Any]
    since: float
    credits: int = 0


class ResponseTimeout:
    """Obstacles to a worker's first answer, and its response timeouts."""

    def __init__(self) -> None:
        """Start without an obstacle."""
        self.obstacle = ""
        """Reason why the cluster cannot start the worker; empty if there is none."""
        self._check_at = 0.0

    def check(
        self, call: Call, handle: WorkerHandle, *, spawned_at: float, last: str | None, now: float
    ) -> str:
        """Return why the worker has timed out; empty to keep waiting.

        Args:
            call: The unanswered command.
            handle: Reports obstacles to the start.
            spawned_at: Time of the spawn.
            last: State in the worker's last answer; None if it has not answered yet.
            now: Monotonic seconds.
        """
        owed = now - call.since
        if last is not None:
            limit = START_SECONDS if last == "starting" else ANSWER_SECONDS
            return f"did not answer for {limit:.0f} s" if owed > limit else ""
        if now - spawned_at > REPORT_WAITING_AFTER_SECONDS and now >= self._check_at:
            self._check_at = now + OBSTACLE_CHECK_SECONDS
            self.obstacle = handle.obstacle()
        if self.obstacle:
            # The worker is not at fault: its start timeout has not begun.
            call.since = now
            return ""
        return f"did not start within {START_SECONDS:.0f} s" if owed > START_SECONDS else ""
