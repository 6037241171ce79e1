"""Ask the platform what to sample, and tell it how that ended."""

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
"""Answers that another try does not change."""
RECORD_SECONDS: Final = 120.0
"""For how long an outcome is sent again; its rollouts wait in the spool for longer."""


class LessonsApi(Protocol):
    """What is asked of the platform: one attempt a call."""

    def next_task(self, request: TaskRequest) -> RolloutTask:
        """Return what a worker is to do next."""

    def record_outcome(self, lesson: str, outcome: LessonOutcome) -> OutcomeReceipt:
        """Tell how rollouts of a lesson ended."""

    def renew_evaluation(self, evaluation: str, fence: int) -> LeaseRenewed:
        """Say that an evaluation is still worked on."""


class PlatformCurriculum:
    """The curriculum of the whole run, which the platform keeps for all workers."""

    def __init__(
        self,
        api: LessonsApi,
        *,
        stop: threading.Event,
        backoff: Backoff | None = None,
        record_seconds: float = RECORD_SECONDS,
    ) -> None:
        """Ask nothing yet.

        Args:
            api: Reaches the platform.
            stop: Ends every wait.
            backoff: Waits between attempts.
            record_seconds: For how long an outcome is sent again.
        """
        self._api = api
        self._stop = stop
        self._backoff = backoff or Backoff(first_seconds=0.2, most_seconds=5.0)
        self._record_seconds = record_seconds

    def next_task(self, request: TaskRequest) -> RolloutTask:
        """Return what a free worker is to do; to wait where the platform does not answer."""
        try:
            return self._api.next_task(request)
        except RolldeckError as failure:
            return RolloutTask(kind="wait", reason=str(failure)[:500], wait_seconds=1.0)

    def record(self, lesson: str, outcome: LessonOutcome) -> OutcomeReceipt:
        """Tell how rollouts ended; sent again under its key until the platform has it.

        Raises:
            RolldeckError: If the platform refuses it, or does not answer in time.
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

    def keep_evaluation(self, evaluation: str, fence: int) -> None:
        """Renew the lease of an evaluation; one attempt.

        Raises:
            RolldeckError: If it is another's by now, or the platform does not answer.
        """
        self._api.renew_evaluation(evaluation, fence)
