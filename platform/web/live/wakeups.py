"""Wake-ups of requests that wait for a change, and results that they share.

One daemon thread per process receives the change notices. A waiting request takes a mark, checks
the database, and waits only if nothing was announced since the mark, so no notice between check
and wait is missed. Callers release their database connection before they wait, and check again at
least once a second, because a notice may be lost.

Requests for the same thing (the next batch of a run) form one queue. A change wakes the first of
them, and the next only after the first succeeded. So a push costs one database read instead of one
per waiting trainer.
"""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

import msgspec
import redis
from django.conf import settings

from web.live.announcements import (
    CHANNEL,
    ChangeNotice,
    listen_locally,
    own_subscriptions,
    this_origin,
)

logger = logging.getLogger(__name__)


# Share lookups between concurrent callers for a short time.

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class SharedReads(Generic[K, T]):
    """Cached results by key, up to a maximum age; for one event loop.

    A failure reaches the callers that wait for it and is not cached.
    """

    def __init__(self, read: Callable[[K], Awaitable[T]], *, seconds: float) -> None:
        self._read = read
        self._seconds = seconds
        self._reads: dict[K, asyncio.Future[T]] = {}

    async def of(self, key: K) -> T:
        """Return the result for `key`, shared with other recent callers."""
        pending = self._reads.get(key)
        if pending is None:
            pending = self._reads[key] = asyncio.ensure_future(self._read(key))
            # The age counts from the start of the lookup, the earliest time the result reflects.
            asyncio.get_running_loop().call_later(self._seconds, self._forget, key, pending)
            pending.add_done_callback(lambda done: self._forget_failure(key, done))
        # Shielded: a cancelled caller must not cancel the lookup of the others.
        return await asyncio.shield(pending)

    def _forget(self, key: K, pending: "asyncio.Future[T]") -> None:
        if self._reads.get(key) is pending:
            del self._reads[key]

    def _forget_failure(self, key: K, done: "asyncio.Future[T]") -> None:
        if done.cancelled() or done.exception() is not None:
            self._forget(key, done)


# Wake requests of this process that wait for a change of a run.

FIRST_PAUSE_SECONDS: Final = 0.1
LONGEST_PAUSE_SECONDS: Final = 2.0
HEALTH_CHECK_SECONDS: Final = 15

Listener = Callable[[ChangeNotice | None], None]
"""Receives a notice, or None after a reconnect, when any notice may have been missed."""


@dataclass(frozen=True, slots=True)
class WaitMark:
    """Number of announcements of a run when the mark was taken."""

    run_id: int
    seen: int


class RunSignal:
    """Announcement counter of one run, with waiting."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.count = 0

    def announce(self) -> None:
        """Count an announcement and wake all waiting threads."""
        with self._changed:
            self.count += 1
            self._changed.notify_all()

    def wait(self, seen: int, timeout_seconds: float) -> bool:
        """Wait for more than `seen` announcements; return False on a timeout."""
        with self._changed:
            return self._changed.wait_for(lambda: self.count > seen, timeout_seconds)


class Subscriber:
    """Daemon thread that receives notices and reconnects indefinitely."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._lock = threading.Lock()
        self._signals: dict[int, RunSignal] = {}
        self._listeners: set[Listener] = set()
        self._thread: threading.Thread | None = None

    def signal(self, run_id: int) -> RunSignal:
        """Return the announcement counter of a run; the first call starts the thread."""
        self._start()
        with self._lock:
            return self._signals.setdefault(run_id, RunSignal())

    def add(self, listener: Listener) -> None:
        """Call `listener` in the subscriber's thread for each notice."""
        self._start()
        with self._lock:
            self._listeners.add(listener)

    def remove(self, listener: Listener) -> None:
        """Stop calling `listener`."""
        with self._lock:
            self._listeners.discard(listener)

    def _start(self) -> None:
        with self._lock:
            if self._thread is None and self._url:
                self._thread = threading.Thread(
                    target=self._listen_for_ever, name="rolldeck-wakeups", daemon=True
                )
                self._thread.start()

    def _listen_for_ever(self) -> None:
        pause = FIRST_PAUSE_SECONDS
        while True:
            began = time.monotonic()
            try:
                self._listen()
            except (redis.RedisError, OSError) as error:
                # Logged once per outage, not on each attempt.
                if pause == FIRST_PAUSE_SECONDS:
                    logger.warning(
                        "change notices not received, pages and waiting requests poll: %s", error
                    )
            except Exception:
                logger.exception("change notice subscriber failed, restarting")
            if time.monotonic() - began > LONGEST_PAUSE_SECONDS:
                pause = FIRST_PAUSE_SECONDS
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    def _listen(self) -> None:
        # redis-py 8 closes idle sockets after five seconds; idle deployments must stay subscribed.
        client = redis.Redis.from_url(
            self._url, socket_timeout=None, health_check_interval=HEALTH_CHECK_SECONDS
        )
        with (
            ExitStack() as counted,
            client,
            client.pubsub(  # type: ignore[no-untyped-call]
                ignore_subscribe_messages=True
            ) as pubsub,
        ):
            pubsub.subscribe(CHANNEL)
            counted.enter_context(own_subscriptions.one())
            # Notices may have been missed.
            with self._lock:
                signals, listeners = list(self._signals.values()), list(self._listeners)
            for signal in signals:
                signal.announce()
            for listener in listeners:
                listener(None)
            while True:
                message = pubsub.get_message(timeout=HEALTH_CHECK_SECONDS)
                if message is None:
                    continue
                try:
                    notice = msgspec.json.decode(message["data"], type=ChangeNotice)
                except (msgspec.MsgspecError, TypeError):
                    continue
                if notice.origin != this_origin():
                    self.deliver(notice)

    def deliver(self, notice: ChangeNotice) -> None:
        """Wake the local waiters of this change."""
        with self._lock:
            signal, listeners = self._signals.get(notice.run), list(self._listeners)
        if signal is not None:
            signal.announce()
        for listener in listeners:
            listener(notice)


_subscribers: dict[str, Subscriber] = {}
_subscribers_lock = threading.Lock()


def subscriber() -> Subscriber:
    """Return the subscriber of this process."""
    url: str = settings.REDIS_URL
    with _subscribers_lock:
        if url not in _subscribers:
            _subscribers[url] = Subscriber(url)
        return _subscribers[url]


def _deliver_here(notice: ChangeNotice) -> None:
    """Wake waiters of this process directly, without Redis."""
    known = _subscribers.get(settings.REDIS_URL)
    if known is not None:
        known.deliver(notice)


listen_locally(_deliver_here)


def mark(run_id: int) -> WaitMark:
    """Return a mark, to take before a check; later announcements are not missed."""
    return WaitMark(run_id=run_id, seen=subscriber().signal(run_id).count)


def wait(mark: WaitMark, timeout_seconds: float) -> bool:
    """Block until the run is announced after `mark`; return False on a timeout.

    The caller has released its database connection (``connection.close()``).
    """
    return subscriber().signal(mark.run_id).wait(mark.seen, timeout_seconds)


# Queues of requests that wait for changes, without a thread or a connection each.

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
        self._subscriber = subscriber()
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
