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
POLL_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitQueue:
    """Key of a queue: a run, the requested thing, and the parts that announce it."""

    run_id: int
    key: Hashable
    parts: frozenset[str]


@dataclass(eq=False, slots=True)
class QueueSlot:
    """One request in a queue."""

    queue: WaitQueue
    turn: asyncio.Event = field(default_factory=asyncio.Event)


class WaitQueues:
    """Wait queues of one event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._queues: dict[WaitQueue, deque[QueueSlot]] = {}
        self._of_run: dict[int, set[WaitQueue]] = {}
        self._poll_timer: asyncio.TimerHandle | None = None
        self._subscriber = wakeups.subscriber()
        self._subscriber.add(self._on_notice)

    @property
    def is_of_running_loop(self) -> bool:
        """Whether the queues belong to the running event loop."""
        return self._loop is asyncio.get_running_loop()

    def join(self, queue: WaitQueue) -> QueueSlot:
        """Join the end of a queue; always leave it with :meth:`leave`."""
        slot = QueueSlot(queue)
        self._queues.setdefault(queue, deque()).append(slot)
        self._of_run.setdefault(queue.run_id, set()).add(queue)
        if self._poll_timer is None:
            self._poll_timer = self._loop.call_later(POLL_SECONDS, self._poll_waiters)
        return slot

    def leave(self, slot: QueueSlot, *, satisfied: bool) -> None:
        """Leave the queue; after a success there may be more, so the next request gets a turn.

        A request that leaves with an unused turn passes it on.
        """
        queue, slots = slot.queue, self._queues[slot.queue]
        slots.remove(slot)
        if slots and (satisfied or slot.turn.is_set()):
            slots[0].turn.set()
        if not slots:
            del self._queues[queue]
            self._of_run[queue.run_id].discard(queue)
            if not self._of_run[queue.run_id]:
                del self._of_run[queue.run_id]

    def _on_notice(self, notice: ChangeNotice | None) -> None:
        """Receive a notice, in the subscriber's thread."""
        try:
            self._loop.call_soon_threadsafe(self._wake, notice)
        except RuntimeError:  # the loop has ended
            self._subscriber.remove(self._on_notice)

    def _wake(self, notice: ChangeNotice | None) -> None:
        queues = self._queues if notice is None else self._of_run.get(notice.run, ())
        for queue in queues:
            if notice is None or not queue.parts.isdisjoint(notice.parts):
                self._queues[queue][0].turn.set()

    def _poll_waiters(self) -> None:
        self._poll_timer = None
        if self._queues:
            self._wake(None)
            self._poll_timer = self._loop.call_later(POLL_SECONDS, self._poll_waiters)
