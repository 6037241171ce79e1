"""Queues of requests that wait for changes, without a thread or a connection each.

Requests for the same thing (the next batch of a run) form one queue. A change wakes the first of
them, and the next only after the first succeeded. So a push costs one database read instead of one
per waiting trainer.
"""

import asyncio
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Final

from web.live import wakeups
from web.live.announcements import ChangeNotice

# Notices may be lost; the first request of each queue polls this often.
LOOK_AGAIN_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitQueue:
    """Key of a queue: a run, the requested thing, and the parts that announce it."""

    run_id: int
    wanted: Hashable
    parts: frozenset[str]


@dataclass(eq=False, slots=True)
class QueueSlot:
    """One request in a queue."""

    line: WaitQueue
    turn: asyncio.Event = field(default_factory=asyncio.Event)


class Turns:
    """Wait queues of one event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._lines: dict[WaitQueue, deque[QueueSlot]] = {}
        self._of_run: dict[int, set[WaitQueue]] = {}
        self._looking: asyncio.TimerHandle | None = None
        self._subscriber = wakeups.subscriber()
        self._subscriber.add(self._heard)

    @property
    def is_of_running_loop(self) -> bool:
        """Whether the queues belong to the running event loop."""
        return self._loop is asyncio.get_running_loop()

    def join(self, line: WaitQueue) -> QueueSlot:
        """Join the end of a queue; always leave it with :meth:`leave`."""
        place = QueueSlot(line)
        self._lines.setdefault(line, deque()).append(place)
        self._of_run.setdefault(line.run_id, set()).add(line)
        if self._looking is None:
            self._looking = self._loop.call_later(LOOK_AGAIN_SECONDS, self._poll_waiters)
        return place

    def leave(self, place: QueueSlot, *, satisfied: bool) -> None:
        """Leave the queue; after a success there may be more, so the next request gets a turn.

        A request that leaves with an unused turn passes it on.
        """
        line = self._lines[place.line]
        line.remove(place)
        if line and (satisfied or place.turn.is_set()):
            line[0].turn.set()
        if not line:
            del self._lines[place.line]
            self._of_run[place.line.run_id].discard(place.line)
            if not self._of_run[place.line.run_id]:
                del self._of_run[place.line.run_id]

    def _heard(self, notice: ChangeNotice | None) -> None:
        """Receive a notice, in the subscriber's thread."""
        try:
            self._loop.call_soon_threadsafe(self._ring, notice)
        except RuntimeError:  # the loop has ended
            self._subscriber.remove(self._heard)

    def _ring(self, notice: ChangeNotice | None) -> None:
        lines = self._lines if notice is None else self._of_run.get(notice.run, ())
        for line in lines:
            if notice is None or not line.parts.isdisjoint(notice.parts):
                self._lines[line][0].turn.set()

    def _poll_waiters(self) -> None:
        self._looking = None
        if self._lines:
            self._ring(None)
            self._looking = self._loop.call_later(LOOK_AGAIN_SECONDS, self._poll_waiters)
