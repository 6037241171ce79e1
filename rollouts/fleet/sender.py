"""Carry a worker's fragments to the platform, through outages, in order.

Invariants:
    - A fragment leaves only when the platform has answered for it, or has refused it for good.
    - Fragments leave in the order in which they came; the spool holds older ones than the queue.
    - A fragment may be sent twice when an answer was lost: its slot and number make the second
      one a duplicate, which the platform counts and does not store.
"""

import random
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from rolldeck.errors import Conflict, InvalidRequest, RolldeckError, StaleEpoch
from rolldeck.http import Backoff
from rolldeck.wire import FragmentReceipt
from rollouts.core.pipeline import PipelineMonitor
from rollouts.fleet.loops import EventLog
from rollouts.fleet.spool import Spool

PER_REQUEST: Final = 32
BYTES_PER_REQUEST: Final = 8 * 1024 * 1024
SPOOL_AFTER_SECONDS: Final = 2.0
"""How long the platform may be away before fragments are written down."""
SPEAK_AFTER_SECONDS: Final = 5.0
"""How long it may be away before an event says so."""

Push = Callable[[list[bytes]], FragmentReceipt]


class Sender:
    """A bounded queue and what happens at its far end; `turn` belongs in a loop of its own."""

    def __init__(
        self,
        push: Push,
        *,
        spool: Spool,
        capacity: int,
        events: EventLog,
        monitor: PipelineMonitor | None = None,
        backoff: Backoff | None = None,
    ) -> None:
        """Send nothing yet.

        Args:
            push: Hands encoded fragments to the platform.
            spool: Takes what the queue cannot hold while the platform is away.
            capacity: Fragments in the queue from which on no new ones shall be begun.
            events: Hears of outages and refusals.
            monitor: Learns what sending costs.
            backoff: Waits between attempts.
        """
        self._push = push
        self._spool = spool
        self._capacity = capacity
        self._events = events
        self._monitor = monitor
        self._backoff = backoff or Backoff(first_seconds=0.2, most_seconds=2.0)
        self._queue: deque[bytes] = deque()
        self._changed = threading.Condition()
        self._failures = 0
        self._failing_since: float | None = None
        self._has_spoken = False
        self._is_closing = False
        # After a refusal, one at a time: the others of the request may be sound.
        self._alone = 0
        self.accepted = 0
        self.sent = 0
        """Fragments that the platform has answered for."""
        self.refused = 0

    @property
    def waiting(self) -> int:
        """Fragments that have not been answered for."""
        return len(self._queue) + len(self._spool)

    def has_room(self) -> bool:
        """Whether a further fragment may be begun."""
        return len(self._queue) < self._capacity and self._spool.has_room()

    def offer(self, fragment: bytes) -> None:
        """Take a fragment; never waits."""
        with self._changed:
            self._queue.append(fragment)
            self._changed.notify()

    def close(self) -> None:
        """End the waits of the turn under way."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()

    def turn(self) -> None:
        """Send one request, or wait up to a second for something to send."""
        with self._changed:
            if not self.waiting and not self._is_closing:
                self._changed.wait(1.0)
        fragments = self._next()
        if not fragments:
            return
        began = time.monotonic()
        try:
            receipt = self._push(fragments)
        except RolldeckError as failure:
            self._take_failure(fragments, failure, began)
            return
        if self._monitor:
            self._monitor.record("send", time.monotonic() - began, began)
        self._take_receipt(fragments, receipt)

    def save(self) -> None:
        """Write what is still queued into the spool; for the end."""
        with self._changed:
            while self._queue:
                self._spool.append(self._queue.popleft())
            self._spool.close()

    def _next(self) -> list[bytes]:
        """Return the oldest fragments, as many as fit into a request; they stay where they are."""
        count = 1 if self._alone else PER_REQUEST
        if len(self._spool):
            candidates = self._spool.oldest(count)
        else:
            with self._changed:
                candidates = list(self._queue)[:count]
        chosen: list[bytes] = []
        size = 0
        for fragment in candidates:
            size += len(fragment)
            if chosen and size > BYTES_PER_REQUEST:
                break
            chosen.append(fragment)
        return chosen

    def _forget(self, count: int) -> None:
        if len(self._spool):
            self._spool.remove_oldest(count)
            return
        with self._changed:
            for _ in range(count):
                self._queue.popleft()

    def _take_receipt(self, fragments: list[bytes], receipt: FragmentReceipt) -> None:
        # First counted, then forgotten: a credit is never free before its fragment shows.
        self.accepted += receipt.accepted
        self.sent += len(fragments)
        self._forget(len(fragments))
        self._alone = max(0, self._alone - len(fragments))
        if self._has_spoken:
            self._events.add("sending_resumed", "The platform takes fragments again")
        self._failures, self._failing_since, self._has_spoken = 0, None, False

    def _take_failure(self, fragments: list[bytes], failure: RolldeckError, now: float) -> None:
        if isinstance(failure, InvalidRequest | StaleEpoch):
            self._refuse(fragments, failure)
            return
        self._failures += 1
        self._failing_since = self._failing_since or now
        away = now - self._failing_since
        if away >= SPOOL_AFTER_SECONDS and not isinstance(failure, Conflict):
            self._write_down()
        if away >= SPEAK_AFTER_SECONDS and not self._has_spoken:
            self._has_spoken = True
            self._events.add(
                "sending_waits", f"Fragments wait to be sent: {failure}", level="warning"
            )
        wait = self._backoff.wait_seconds(self._failures, random.random())  # noqa: S311
        with self._changed:
            if not self._is_closing:
                self._changed.wait_for(lambda: self._is_closing, wait)

    def _refuse(self, fragments: list[bytes], failure: RolldeckError) -> None:
        if len(fragments) > 1:
            self._alone = len(fragments)
            return
        self._forget(1)
        self._alone = max(0, self._alone - 1)
        self.refused += 1
        self.sent += 1
        self._events.add(
            "fragment_refused",
            f"The platform refused a fragment for good: {failure}",
            level="error",
        )

    def _write_down(self) -> None:
        with self._changed:
            while self._queue and self._spool.has_room():
                self._spool.append(self._queue[0])
                self._queue.popleft()
