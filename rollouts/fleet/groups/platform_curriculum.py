"""Client of the platform's curriculum."""

import random
import threading
import time
from typing import Final, Protocol

from rolldeck.errors import (
    Conflict,
    InvalidRequest,
    NotAllowed,
    NotAuthenticated,
    NotFound,
    RolldeckError,
)
from rolldeck.http import Backoff
from rolldeck.lessons import LeaseRenewed, LessonOutcome, OutcomeReceipt, RolloutTask, TaskRequest

FINAL: Final = (InvalidRequest, NotAllowed, NotAuthenticated, NotFound, Conflict)
"""Errors that a retry cannot resolve."""
RECORD_SECONDS: Final = 120.0
"""Time limit of retries for an outcome; its rollouts stay in the spool for longer."""


class LessonsApi(Protocol):
    """Platform calls used here; each makes one attempt."""

    def next_task(self, request: TaskRequest) -> RolloutTask:
        """Return the next task of a worker."""

    def record_outcome(self, lesson: str, outcome: LessonOutcome) -> OutcomeReceipt:
        """Record an outcome of a lesson."""

    def renew_evaluation(self, evaluation: str, fence: int) -> LeaseRenewed:
        """Renew the lease of an evaluation."""


class PlatformCurriculum:
    """The curriculum of a run, which the platform holds for all workers."""

    def __init__(
        self,
        api: LessonsApi,
        *,
        stop: threading.Event,
        backoff: Backoff | None = None,
        record_seconds: float = RECORD_SECONDS,
    ) -> None:
        """Prepare the client.

        Args:
            api: Client of the platform.
            stop: Ends every wait.
            backoff: Waits between attempts.
            record_seconds: Time limit of retries for an outcome.
        """
        self._api = api
        self._stop = stop
        self._backoff = backoff or Backoff(first_seconds=0.2, most_seconds=5.0)
        self._record_seconds = record_seconds

    def next_task(self, request: TaskRequest) -> RolloutTask:
        """Return a task for a free worker, or a task to wait if the platform does not answer."""
        try:
            return self._api.next_task(request)
        except RolldeckError as failure:
            return RolloutTask(kind="wait", reason=str(failure)[:500], wait_seconds=1.0)

    def record(self, lesson: str, outcome: LessonOutcome) -> OutcomeReceipt:
        """Record an outcome, retrying under the same key until the platform has stored it.

        Raises:
            RolldeckError: If the platform refuses it or does not answer in time.
        """
        deadline = time.monotonic() + self._record_seconds
        attempt = 0
        while True:
            try:
                return self._api.record_outcome(lesson, outcome)
            except FINAL:
                raise
            except RolldeckError:
                attempt += 1
                wait = self._backoff.wait_seconds(attempt, random.random())  # noqa: S311
                if self._stop.wait(wait) or time.monotonic() > deadline:
                    raise

    def renew_evaluation(self, evaluation: str, fence: int) -> None:
        """Renew the lease of an evaluation, in one attempt.

        Raises:
            RolldeckError: If another worker holds the lease, or the platform does not answer.
        """
        self._api.renew_evaluation(evaluation, fence)
