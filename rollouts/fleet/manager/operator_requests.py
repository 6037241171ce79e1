"""Operator requests that only the fleet can fulfil: read a log or stacks, record an episode.

Requests arrive with the platform's commands. Each answer is a separate call, so no loop of the
fleet waits for a slow node.
"""

import logging
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final

from rolldeck.errors import RolldeckError
from rolldeck.operator_requests import LogLines, LogRequest, RecordingCommand, StacksRequest
from rolldeck.wire import FleetControl
from rollouts.fleet.manager.worker_pool import WorkerPool
from rollouts.fleet.manager.workers import WorkerSource, cause_of
from rollouts.fleet.platform_api import PlatformApi
from rollouts.fleet.process.logs import read_log
from rollouts.fleet.process.settings import FleetSettings

logger = logging.getLogger(__name__)

STACKS_SECONDS: Final = 8.0
"""Time a worker has to answer; native code that holds the GIL delays or prevents the answer."""
ANSWER_SECONDS: Final = 3.0
"""Time a worker has to read its log before its node is asked instead."""
ELSEWHERE_SECONDS: Final = 10.0
"""Time for that node, which must start a process first."""
POLL_SECONDS: Final = 0.05
REMEMBERED: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pending:
    """A call of a worker, or of a task on its node, that reads what a request asks for."""

    request: LogRequest | StacksRequest
    future: "Future[Any] | None"
    until: float
    is_elsewhere: bool = False
    """Whether the log is read by a task on the node instead of by the worker."""

    @property
    def is_over(self) -> bool:
        return self.future is None or self.future.done() or time.monotonic() > self.until


class OperatorRequests:
    """Requests in progress; call `turn` from a dedicated loop."""

    def __init__(
        self,
        settings: FleetSettings,
        *,
        api: PlatformApi,
        worker_pool: WorkerPool,
        source: WorkerSource,
    ) -> None:
        """Start without requests; `source` reads the logs of workers that no longer run."""
        self._settings = settings
        self._api = api
        self._worker_pool = worker_pool
        self._source = source
        self._wakeup = threading.Event()
        self._wanted: list[LogRequest | StacksRequest] = []
        self._recordings: list[RecordingCommand] = []
        self._assigned: dict[str, tuple[int, str]] = {}
        """Worker index and incarnation by recording id."""
        self._under_way: dict[str, _Pending] = {}
        self._seen: OrderedDict[str, None] = OrderedDict()

    def receive(self, control: FleetControl) -> None:
        """Store the requests of the platform's commands; never waits."""
        self._wanted = [*control.log_requests, *control.stacks]
        self._recordings = control.recordings
        if self._wanted or self._recordings:
            self._wakeup.set()

    def wake(self) -> None:
        self._wakeup.set()

    def turn(self) -> None:
        """Start new requests and send finished answers; wait if there are none."""
        self._wakeup.wait(POLL_SECONDS if self._under_way else 1.0)
        self._wakeup.clear()
        self._assign_recordings(self._recordings)
        for request in self._wanted:
            if request.id not in self._seen:
                self._seen[request.id] = None
                self._ask(request)
        while len(self._seen) > REMEMBERED:
            self._seen.popitem(last=False)
        for pending in list(self._under_way.values()):
            if pending.is_over:
                self._answer(pending)

    def _assign_recordings(self, commands: Sequence[RecordingCommand]) -> None:
        """Assign each recording to a worker, and reassign it when that worker is lost."""
        open_ids = {command.id for command in commands}
        there = {(member.index, member.incarnation) for member in self._worker_pool.members}
        self._assigned = {
            name: at for name, at in self._assigned.items() if name in open_ids and at in there
        }
        for command in commands:
            if command.id in self._assigned:
                continue
            members = self._worker_pool.members
            if command.worker is not None:
                members = [member for member in members if member.index == command.worker]
            else:
                # Those with the fewest recordings first.
                load = Counter(index for index, _ in self._assigned.values())
                running = [member for member in members if member.condition == "running"]
                members = sorted(running, key=lambda member: load[member.index])
            for member in members:
                if member.call("record", command) is not None:
                    self._assigned[command.id] = (member.index, member.incarnation)
                    break

    def _ask(self, request: LogRequest | StacksRequest) -> None:
        members, seconds = self._worker_pool.members, ANSWER_SECONDS
        if isinstance(request, StacksRequest):
            seconds = STACKS_SECONDS
            asked = [
                member.call("read_stacks", may_start=True)
                for member in members
                if (member.index, member.incarnation) == (request.worker, request.incarnation)
            ]
        else:
            asked = [
                member.call("read_log", request.slot, request.lines)
                for member in members
                if member.index == request.worker
            ]
        self._under_way[request.id] = _Pending(
            request=request,
            future=asked[0] if asked else None,
            until=time.monotonic() + seconds,
        )

    def _answer(self, pending: _Pending) -> None:
        """Send the answer; if a log was not read, retry on the worker's node or on this one."""
        request, asked = pending.request, pending.future
        read: LogLines | None = None
        failure = ""
        if asked is not None and asked.done():
            try:
                read = asked.result()
            except Exception as error:  # noqa: BLE001 a lost worker raises many types
                failure = cause_of(error)
                logger.info("request %s failed: %s", request.id, failure)
        if read is None and isinstance(request, LogRequest):
            if not pending.is_elsewhere and request.worker is not None:
                future = self._source.read_log(request.worker, request.slot, request.lines)
                if future is not None:
                    until = time.monotonic() + ELSEWHERE_SECONDS
                    self._under_way[request.id] = _Pending(
                        request=request, future=future, until=until, is_elsewhere=True
                    )
                    return
            failure = failure or "its node did not answer in time"
            read = self._read_here(request, failure=failure, is_elsewhere=pending.is_elsewhere)
        elif read is None:
            note = f"no answer within {STACKS_SECONDS:.0f} s: the worker is stuck in native code"
            if asked is None:
                note = "the worker no longer exists"
            elif failure:
                note = f"the worker does not answer: {failure}"
            read = LogLines(lines=[], note=note)
        del self._under_way[request.id]
        try:
            self._api.answer_log(request.id, read)
        except RolldeckError as refusal:
            # The client has disconnected or will ask again.
            logger.info("request %s not answered: %s", request.id, refusal)

    def _read_here(self, request: LogRequest, *, failure: str, is_elsewhere: bool) -> LogLines:
        """Read the log on the manager's node, where an earlier incarnation may have run.

        `failure` is why the worker's node returned no log. If the worker ran on another node, a log
        found here is older.
        """
        read = read_log(
            self._settings, worker=request.worker, slot=request.slot, lines=request.lines
        )
        if request.worker is None or (read.lines and not is_elsewhere):
            return read
        why = failure if is_elsewhere else "its log is not on the manager's node"
        older = "; these lines are older, from the manager's node" if read.lines else ""
        note = f"the worker does not answer: {why}{older}"
        return LogLines(lines=read.lines, node=read.node, path=read.path, note=note)
