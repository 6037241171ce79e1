"""Curricula: the interface, the client of the platform's, and the renewal of evaluation leases."""

import random
import threading
import time
from collections.abc import Callable
from typing import Final, Protocol, Self

from rolldeck.errors import (
    ConflictError,
    InvalidRequestError,
    NotAllowedError,
    NotAuthenticatedError,
    NotFoundError,
    RolldeckError,
)
from rolldeck.http import Backoff
from rolldeck.lessons import LessonOutcome, OutcomeReceipt, RolloutTask, TaskRequest
from rollouts.fleet.platform_api import PlatformApi

FINAL: Final = (
    InvalidRequestError,
    NotAllowedError,
    NotAuthenticatedError,
    NotFoundError,
    ConflictError,
)
"""Errors that a retry cannot resolve."""
RECORD_SECONDS: Final = 120.0
"""Time limit of retries for an outcome; its rollouts stay in the spool for longer."""
RENEWALS_A_LEASE: Final = 3
"""Renewals per lease period: two may fail before the lease expires."""


class OutcomeReceiver(Protocol):
    """Receiver of outcomes; a call returns once the decision is stored."""

    def record(self, lesson: str, outcome: LessonOutcome) -> OutcomeReceipt:
        """Record an outcome of a lesson; a known key changes nothing."""


class Curriculum(OutcomeReceiver, Protocol):
    """Source of tasks and receiver of outcomes; both calls return once the decision is stored."""

    def next_task(self, request: TaskRequest) -> RolloutTask:
        """Return a task for a free worker."""

    def renew_evaluation(self, evaluation: str, fence: int) -> None:
        """Renew the lease of an evaluation.

        Raises:
            RolldeckError: If another worker holds the lease, or the platform is unreachable.
        """


class NoCurriculum:
    """A receiver that discards outcomes, for the evaluation of a checkpoint."""

    def record(self, lesson: str, outcome: LessonOutcome) -> OutcomeReceipt:
        del lesson, outcome
        return OutcomeReceipt(is_new=True)


class PlatformCurriculum:
    """The curriculum of a run, which the platform holds for all workers."""

    def __init__(
        self,
        api: PlatformApi,
        *,
        stop: threading.Event,
        backoff: Backoff | None = None,
        record_seconds: float = RECORD_SECONDS,
    ) -> None:
        """Prepare the client; `stop` ends every wait.

        Outcomes are retried for `record_seconds`.
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


class LeaseRenewer:
    """Context manager that renews a lease in a background thread.

    If the lease is lost, `on_lost` is called once and the work continues; the fence then rejects
    its result.
    """

    def __init__(
        self,
        renew: Callable[[], None],
        *,
        lease_seconds: float,
        on_lost: Callable[[RolldeckError], None],
    ) -> None:
        """Prepare the keeper; renewals start on entry, and each adds `lease_seconds`.

        `on_lost` receives the reason when renewals are refused for good.
        """
        self._renew, self._on_lost = renew, on_lost
        self._every_seconds = lease_seconds / RENEWALS_A_LEASE
        self._is_over = threading.Event()

    def __enter__(self) -> Self:
        threading.Thread(target=self._run, name="evaluation lease", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop without waiting for a renewal in progress."""
        self._is_over.set()

    def _run(self) -> None:
        while not self._is_over.wait(self._every_seconds):
            try:
                self._renew()
            except FINAL as refusal:
                # An evaluation that has been recorded in the meantime is not lost.
                if not self._is_over.is_set():
                    self._on_lost(refusal)
                return
            except RolldeckError:
                continue  # The platform is unreachable; the next attempt may still be in time.
