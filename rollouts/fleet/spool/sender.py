"""Send a worker's fragments to the platform in order, through outages.

Invariants:
    - A fragment is removed only when the platform has accepted it or refused it permanently.
    - Fragments are sent in order: first those inherited from ended workers, then the spool, then
      the queue.
    - A fragment is in a file before `offer` returns, so a killed worker loses none that it has
      cut. Only fragments that the disk does not accept stay in memory, in the queue.
    - A fragment may be sent twice if an answer was lost. Its slot and number identify the second
      one as a duplicate, which the platform counts and does not store.
"""

import random
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from rolldeck.errors import ConflictError, InvalidRequestError, RolldeckError, StaleEpochError
from rolldeck.http import Backoff
from rolldeck.wire import FragmentReceipt
from rollouts.fleet.process.loops import EventLog
from rollouts.fleet.process.spans import PipelineMonitor
from rollouts.fleet.spool.spool_directory import Spool

REFUSAL_SECONDS: Final = 60.0
FRAGMENT_REFUSED: Final = "fragment_refused"
"""Kind of the event; its details hold `reason` and `fragments`."""
PER_REQUEST: Final = 128
BYTES_PER_REQUEST: Final = 8 * 1024 * 1024
GATHER_SECONDS: Final = 0.01
"""Time the first fragment waits for others, as slots in step cut theirs simultaneously."""
OUTAGE_AFTER_SECONDS: Final = 2.0
"""Duration of a request after which the platform counts as unreachable."""
POLL_SECONDS: Final = 5.0
"""Interval between checks for spools of ended workers."""
REPORT_AFTER_SECONDS: Final = 5.0
"""Duration of an outage after which an event is emitted."""

REFUSED: Final = (InvalidRequestError, StaleEpochError)
"""Errors with which the platform refuses fragments for good."""
Push = Callable[[list[bytes]], FragmentReceipt]
Inherit = Callable[[], Spool | None]


@dataclass(slots=True)
class _Reason:
    """Refusals for one reason since its last event."""

    reported_at: float
    fragments: int = 0
    message: str = ""
    newest: "_Origin | None" = None


class _Origin(Struct):
    """The fields of a fragment that name where it is from; other items have none."""

    slot: str = ""
    environment: str = ""


class RefusalEvents:
    """Counts refused fragments by reason; the first of a reason is reported at once."""

    def __init__(self, events: EventLog, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._events = events
        self._clock = clock
        self._reasons: dict[str, _Reason] = {}

    def add(self, failure: RolldeckError, fragment: bytes) -> None:
        """Count a refused fragment."""
        is_new = failure.code not in self._reasons
        reason = self._reasons.setdefault(failure.code, _Reason(self._clock()))
        reason.fragments += 1
        reason.message, reason.newest = str(failure), None
        with suppress(msgspec.MsgspecError):
            reason.newest = msgspec.msgpack.decode(fragment, type=_Origin)
        if is_new:
            self._report(failure.code, reason)

    def report(self, *, is_last: bool = False) -> None:
        """Emit the events that are due; all that are left if `is_last`."""
        for code, reason in self._reasons.items():
            is_due = self._clock() - reason.reported_at >= REFUSAL_SECONDS
            if reason.fragments and (is_due or is_last):
                self._report(code, reason)

    def _report(self, code: str, reason: _Reason) -> None:
        count = reason.fragments
        what = "a fragment" if count == 1 else f"{count:,} fragments"
        self._events.add(
            FRAGMENT_REFUSED,
            f"The platform refused {what} permanently: {reason.message}",
            level="error",
            reason=code,
            fragments=count,
            error=reason.message,
            **({} if reason.newest is None else asdict(reason.newest)),
        )
        reason.fragments, reason.reported_at = 0, self._clock()


class Sender:
    """Bounded queue and its sender; call `turn` from a dedicated loop."""

    def __init__(
        self,
        push: Push,
        *,
        spool: Spool,
        inherit: Inherit = lambda: None,
        capacity: int,
        events: EventLog,
        monitor: PipelineMonitor | None = None,
        backoff: Backoff | None = None,
        gather_seconds: float = GATHER_SECONDS,
    ) -> None:
        """Prepare the sender.

        Args:
            push: Pushes encoded fragments to the platform.
            spool: Holds fragments until the platform has accepted them.
            inherit: Returns the spool of an ended worker, one at a time.
            capacity: Number of waiting fragments at which no new ones are started. During an
                outage of the platform, the size of the spool is the limit instead.
            events: Receives events about outages and refusals.
            monitor: Receives timings.
            backoff: Waits between attempts.
            gather_seconds: Time that less than a full request waits for more fragments.
        """
        self._push = push
        self._spool = spool
        self._inherit = inherit
        self._inherited: Spool | None = None
        self._look_at = 0.0
        self._capacity = capacity
        self._events = events
        self._refusals = RefusalEvents(events)
        self._monitor = monitor
        self._backoff = backoff or Backoff(first_seconds=0.2, most_seconds=2.0)
        self._gather_seconds = gather_seconds
        self._queue: deque[bytes] = deque()
        self._changed = threading.Condition()
        self._failures = 0
        self._failing_since: float | None = None
        self._has_spoken = False
        self._asked_at: float | None = None
        """Time at which the current request was sent."""
        self._is_away = False
        self._spool_fault = ""
        self._is_closing = False
        # After a refusal, fragments are sent one by one, because the others may be valid.
        self._alone = 0
        self.accepted = 0
        self.sent = 0
        """Number of fragments that the platform has answered for."""
        self.refused = 0
        self.lost = 0

    @property
    def waiting(self) -> int:
        """Number of fragments without an answer from the platform."""
        inherited = self._inherited
        return len(self._queue) + len(self._spool) + (len(inherited) if inherited else 0)

    def has_room(self) -> bool:
        """Return whether another fragment may be started."""
        asked_at = self._asked_at
        is_unanswered = asked_at is not None and time.monotonic() - asked_at > OUTAGE_AFTER_SECONDS
        if self._is_away or is_unanswered:
            return self._spool.has_room() and not self._spool_fault
        return len(self._spool) + len(self._queue) < self._capacity

    def offer(self, fragment: bytes) -> None:
        """Queue a fragment and write it to the spool, without waiting for the platform."""
        with self._changed:
            self._queue.append(fragment)
            self._store()
            self._changed.notify()

    def close(self) -> None:
        """End the waits of the current turn."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()

    def turn(self) -> None:
        """Send one request, or wait up to a second for fragments."""
        self._refusals.report()
        self._adopt_orphaned_spools()
        with self._changed:
            if not self.waiting and not self._is_closing:
                self._changed.wait(1.0)
        if 0 < self.waiting < PER_REQUEST and not self._is_closing:
            # During this sleep, `offer` has no waiting thread to wake and is cheap.
            time.sleep(self._gather_seconds)
        fragments = self._next()
        if not fragments:
            return
        began = self._asked_at = time.monotonic()
        try:
            receipt = self._push(fragments)
        except RolldeckError as failure:
            self._handle_failure(fragments, failure, began)
            return
        finally:
            self._asked_at = None
        if self._monitor:
            self._monitor.record("send", time.monotonic() - began, began)
        # Count before removal: a credit is never free before its fragment is counted.
        self.accepted += receipt.accepted
        self.sent += len(fragments)
        self._forget(len(fragments))
        self._alone = max(0, self._alone - len(fragments))
        if self._has_spoken:
            self._events.add("sending_resumed", "The platform accepts fragments again")
        self._failures, self._failing_since, self._has_spoken = 0, None, False
        self._is_away = False

    def save(self) -> None:
        """Write the queue to the spool and close it; call this last."""
        self._refusals.report(is_last=True)
        with self._changed:
            self._store()
            self._spool.close()
            if self._inherited is not None:
                self._inherited.close()

    def _adopt_orphaned_spools(self) -> None:
        now = time.monotonic()
        if self._inherited is not None and not self._inherited:
            self._inherited.close()
            self._inherited = None
        if self._inherited is not None or now < self._look_at:
            return
        self._look_at = now + POLL_SECONDS
        found = self._inherit()
        if found is not None:
            # Look again at once when this one is sent.
            self._look_at = now
            self._inherited = found
            if found.lost:
                self._emit_spool_loss(found)
            self._events.add(
                "spool_inherited",
                f"Sending {len(found)} fragments left by worker {found.folder.name}",
                fragments=len(found),
            )

    def _next(self) -> list[bytes]:
        """Return the oldest fragments that fit into a request, without removing them."""
        count = 1 if self._alone else PER_REQUEST
        with self._changed:
            spool = self._nonempty_spool()
            candidates = spool.oldest(count) if spool else list(islice(self._queue, count))
        if spool is not None and spool.lost:
            self._emit_spool_loss(spool)
        chosen: list[bytes] = []
        size = 0
        for fragment in candidates:
            size += len(fragment)
            if chosen and size > BYTES_PER_REQUEST:
                break
            chosen.append(fragment)
        return chosen

    def _nonempty_spool(self) -> Spool | None:
        for spool in (self._inherited, self._spool):
            if spool:
                return spool
        return None

    def _forget(self, count: int) -> None:
        """Remove the oldest fragments; some may have moved to the spool since they were sent."""
        with self._changed:
            for _ in range(count):
                spool = self._nonempty_spool()
                if spool is None:
                    self._queue.popleft()
                else:
                    spool.remove_oldest()

    def _handle_failure(self, fragments: list[bytes], failure: RolldeckError, now: float) -> None:
        if isinstance(failure, REFUSED):
            if len(fragments) > 1:
                self._alone = len(fragments)
                return
            self._forget(1)
            self._alone = max(0, self._alone - 1)
            self.refused += 1
            self.sent += 1
            self._refusals.add(failure, fragments[0])
            return
        self._failures += 1
        self._failing_since = self._failing_since or now
        away = now - self._failing_since
        # A conflict is an answer: the platform is reachable but accepts nothing at present.
        self._is_away = not isinstance(failure, ConflictError)
        if self._is_away:
            with self._changed:
                self._store()
        if away >= REPORT_AFTER_SECONDS and not self._has_spoken:
            self._has_spoken = True
            self._events.add(
                "sending_waits", f"Fragments cannot be sent: {failure}", level="warning"
            )
        wait = self._backoff.wait_seconds(self._failures, random.random())  # noqa: S311
        with self._changed:
            if not self._is_closing:
                self._changed.wait_for(lambda: self._is_closing, wait)

    def _store(self) -> None:
        """Move the queue to the spool as far as the disk accepts it; requires the lock."""
        while self._queue:
            if not self._spool.has_room():
                self._emit_disk_fault("the limit of its size or of free disk space is reached")
                return
            try:
                self._spool.append(self._queue[0])
            except OSError as error:
                self._emit_disk_fault(str(error))
                return
            self._queue.popleft()
            self._spool_fault = ""

    def _emit_disk_fault(self, fault: str) -> None:
        """Emit one event when fragments stay in memory, until the disk accepts some again."""
        if not self._spool_fault:
            self._events.add(
                "spool_failed", f"The spool accepts no more fragments: {fault}", level="error"
            )
        self._spool_fault = fault

    def _emit_spool_loss(self, spool: Spool) -> None:
        lost, spool.lost = spool.lost, 0
        self.lost += lost
        self._events.add(
            "spool_damaged",
            f"{lost} spooled fragments cannot be read",
            level="error",
            fragments=lost,
        )
