"""Collect the thread stacks of workers for the platform."""

import logging
import time
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, Final, NamedTuple

from rolldeck.errors import RolldeckError
from rolldeck.operator_requests import LogLines, StacksRequest
from rollouts.fleet.manager.worker_pool import WorkerPool
from rollouts.fleet.manager.workers import cause_of
from rollouts.fleet.spool.platform_api import PlatformApi

logger = logging.getLogger(__name__)

ANSWER_SECONDS: Final = 8.0
"""Time a worker has to answer; native code that holds the GIL delays or prevents the answer."""


class _PendingDump(NamedTuple):
    future: Future[Any] | None
    until: float

    @property
    def is_over(self) -> bool:
        return self.future is None or self.future.done() or time.monotonic() > self.until


class StackRequests:
    """Stack requests in progress; no method waits for a worker."""

    def __init__(self, *, api: PlatformApi, worker_pool: WorkerPool) -> None:
        """Start without requests.

        Args:
            api: Receives the answers.
            worker_pool: Pool of the workers that can be asked.
        """
        self._api = api
        self._worker_pool = worker_pool
        self._under_way: dict[str, _PendingDump] = {}
        self._done: dict[str, None] = {}

    @property
    def is_waiting(self) -> bool:
        """Whether any answer is outstanding."""
        return bool(self._under_way)

    def turn(self, requests: Sequence[StacksRequest]) -> None:
        """Start the new requests in `requests`, and send finished answers."""
        # Requests that the platform no longer lists were answered or have expired.
        ids = {request.id for request in requests}
        self._done = {request_id: None for request_id in self._done if request_id in ids}
        for request in requests:
            if request.id not in self._done and request.id not in self._under_way:
                until = time.monotonic() + ANSWER_SECONDS
                self._under_way[request.id] = _PendingDump(self._send(request), until)
        for request_id, dump in list(self._under_way.items()):
            if dump.is_over:
                del self._under_way[request_id]
                self._done[request_id] = None
                self._answer(request_id, _outcome(dump.future))

    def _send(self, request: StacksRequest) -> Future[Any] | None:
        for member in self._worker_pool.members:
            if (member.index, member.incarnation) == (request.worker, request.incarnation):
                return member.call("read_stacks", may_start=True)
        return None

    def _answer(self, request_id: str, read: LogLines) -> None:
        try:
            self._api.answer_log(request_id, read)
        except RolldeckError as failure:
            # The client has disconnected or will ask again.
            logger.info("stacks request %s not answered: %s", request_id, failure)


def _outcome(future: Future[Any] | None) -> LogLines:
    if future is None:
        return LogLines(lines=[], note="the worker no longer exists")
    if not future.done():
        note = f"no answer within {ANSWER_SECONDS:.0f} s: the worker is stuck in native code"
        return LogLines(lines=[], note=note)
    try:
        read: LogLines | None = future.result()
    except Exception as error:  # noqa: BLE001 a lost worker raises many types
        return LogLines(lines=[], note=f"the worker does not answer: {cause_of(error)}")
    return read or LogLines(lines=[], note="a simulated worker has no threads")
