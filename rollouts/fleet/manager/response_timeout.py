"""Judge how long a worker may owe an answer."""

from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final

from rollouts.fleet.manager.workers import WorkerHandle

ANSWER_SECONDS: Final = 15.0
"""How long a worker may owe an answer before it counts as hung."""
START_SECONDS: Final = 90.0
"""How long its first answer may take, where nothing is in the way of starting it."""
SAY_WAITING_AFTER_SECONDS: Final = 2.0
LOOK_FOR_OBSTACLES_EVERY_SECONDS: Final = 1.0


@dataclass(slots=True)
class Call:
    """Orders that a worker was given, and what becomes its answer."""

    future: Future[Any]
    since: float
    credits: int = 0


class Patience:
    """What is in the way of a worker's first answer, and when its silence is too long."""

    def __init__(self) -> None:
        """Know of nothing in the way."""
        self.obstacle = ""
        """What keeps the cluster from starting it, if anything does."""
        self._look_at = 0.0

    def judge(
        self, call: Call, handle: WorkerHandle, *, spawned_at: float | None, now: float
    ) -> str:
        """Return why the worker is to be let go of; empty to wait on.

        Args:
            call: What it owes the answer to.
            handle: To ask what is in its way.
            spawned_at: Since when it starts; None once it has answered.
            now: Monotonic seconds.
        """
        owed = now - call.since
        if spawned_at is None:
            return f"it did not answer for {ANSWER_SECONDS:.0f} s" if owed > ANSWER_SECONDS else ""
        if now - spawned_at > SAY_WAITING_AFTER_SECONDS and now >= self._look_at:
            self._look_at = now + LOOK_FOR_OBSTACLES_EVERY_SECONDS
            self.obstacle = handle.obstacle()
        if self.obstacle:
            # Nothing is wrong with the worker: its time to start has not begun.
            call.since = now
            return ""
        return f"it did not start within {START_SECONDS:.0f} s" if owed > START_SECONDS else ""
