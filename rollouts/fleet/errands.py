"""Do what people asked for and only the fleet can: read a log, film an episode.

Requests come with the platform's orders and are answered by a call of their own, so that no
loop of the fleet waits for a slow node.
"""

import logging
import socket
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, Final

from rolldeck.errands import LogLines, LogRequest, RecordingOrder
from rolldeck.errors import RolldeckError
from rolldeck.wire import FleetControl
from rollouts.fleet import log_files
from rollouts.fleet.member import Member
from rollouts.fleet.platform_api import PlatformApi
from rollouts.fleet.roster import Roster
from rollouts.fleet.settings import FleetSettings

logger = logging.getLogger(__name__)

ANSWER_SECONDS: Final = 3.0
"""How long a worker may take to read its log before this node is looked at instead."""
LOOK_SECONDS: Final = 0.05
REMEMBERED: Final = 256


class Errands:
    """The requests under way; `turn` belongs in a loop of its own."""

    def __init__(self, settings: FleetSettings, *, api: PlatformApi, roster: Roster) -> None:
        """Begin with nothing to do.

        Args:
            settings: Of the fleet.
            api: Takes the answers.
            roster: Who may be asked.
        """
        self._settings = settings
        self._api = api
        self._roster = roster
        self._asked = threading.Event()
        self._wanted: list[LogRequest] = []
        self._to_film: list[RecordingOrder] = []
        self._filming: dict[str, tuple[int, str]] = {}
        """Worker and incarnation by order."""
        self._under_way: dict[str, tuple[LogRequest, Future[Any] | None, float]] = {}
        self._seen: OrderedDict[str, None] = OrderedDict()

    def hear(self, control: FleetControl) -> None:
        """Take the platform's orders; never waits."""
        self._wanted, self._to_film = control.log_requests, control.recordings
        if control.log_requests or control.recordings:
            self._asked.set()

    def wake(self) -> None:
        """End the wait of the turn under way."""
        self._asked.set()

    def turn(self) -> None:
        """Begin what is new, answer what is ready; wait while there is neither."""
        self._asked.wait(LOOK_SECONDS if self._under_way else 1.0)
        self._asked.clear()
        self._assign_films(self._to_film)
        for request in self._wanted:
            if request.id not in self._seen:
                self._remember(request.id)
                self._under_way[request.id] = (request, self._ask(request), time.monotonic())
        for request, future, since in list(self._under_way.values()):
            if future is None or future.done() or time.monotonic() - since > ANSWER_SECONDS:
                del self._under_way[request.id]
                self._answer(request, future)

    def _assign_films(self, orders: Sequence[RecordingOrder]) -> None:
        """Pass each order to a worker, again when that worker is lost."""
        wanted = {order.id for order in orders}
        there = {(member.index, member.incarnation) for member in self._roster.members}
        self._filming = {
            name: at for name, at in self._filming.items() if name in wanted and at in there
        }
        for order in orders:
            if order.id in self._filming:
                continue
            for member in self._filmers(order):
                if member.record(order):
                    self._filming[order.id] = (member.index, member.incarnation)
                    break

    def _filmers(self, order: RecordingOrder) -> list[Member]:
        """Return the workers that may take an order, those with the fewest films first."""
        members = self._roster.members
        if order.worker is not None:
            return [member for member in members if member.index == order.worker]
        load = Counter(index for index, _ in self._filming.values())
        running = [member for member in members if member.condition == "running"]
        return sorted(running, key=lambda member: load[member.index])

    def _remember(self, request_id: str) -> None:
        self._seen[request_id] = None
        while len(self._seen) > REMEMBERED:
            self._seen.popitem(last=False)

    def _ask(self, request: LogRequest) -> "Future[Any] | None":
        for member in self._roster.members:
            if member.index == request.worker:
                return member.read_log(request.slot, request.lines)
        return None

    def _answer(self, request: LogRequest, future: "Future[Any] | None") -> None:
        try:
            self._api.answer_log(request.id, self._lines(request, future))
        except RolldeckError as failure:
            # Whoever asked has gone, or asks again.
            logger.info("log request %s not answered: %s", request.id, failure)

    def _lines(self, request: LogRequest, future: "Future[Any] | None") -> LogLines:
        if future is not None and future.done():
            try:
                read: LogLines = future.result()
            except Exception as error:  # noqa: BLE001 a cluster has many ways to lose a worker
                logger.info("worker %s did not read its log: %s", request.worker, error)
            else:
                return read
        return self._read_here(request)

    def _read_here(self, request: LogRequest) -> LogLines:
        """Read the log on the manager's node; a worker that is gone may have been here."""
        read = read_log(
            self._settings, worker=request.worker, slot=request.slot, lines=request.lines
        )
        if read.lines or request.worker is None:
            return read
        note = "the worker does not answer, and its log is not on the manager's node"
        return LogLines(lines=[], node=read.node, path=read.path, note=note)


def read_log(
    settings: FleetSettings, *, worker: int | None, slot: int | None, lines: int
) -> LogLines:
    """Return the end of a log of this node."""
    path = log_files.log_of(settings, worker=worker, slot=slot)
    found = log_files.tail(path, lines=lines)
    return LogLines(lines=found, node=socket.gethostname()[:200], path=str(path)[-500:])
