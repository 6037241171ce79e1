"""Wake what waits in this process for a change of a run.

One daemon thread per process listens to the nudges. A waiting request takes a ticket, checks
the database, and waits only if nothing was announced since the ticket; so no nudge between
check and wait is missed. Waiting never holds a database connection: callers give it back first
and look again at most a second later, because a nudge may be lost.
"""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import redis
from django.conf import settings

from runs.live.announcements import CHANNEL, Nudge, hear_here, own_subscriptions, this_origin

logger = logging.getLogger(__name__)

FIRST_PAUSE_SECONDS: Final = 0.1
LONGEST_PAUSE_SECONDS: Final = 2.0
HEALTH_CHECK_SECONDS: Final = 15

Listener = Callable[[Nudge | None], None]
"""Takes a nudge, or None when the connection came back and anything may have been missed."""


@dataclass(frozen=True, slots=True)
class Ticket:
    """How often a run had been announced when the ticket was taken."""

    run_id: int
    seen: int


class Bell:
    """Count the announcements of one run and wake who waits for the next."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.rings = 0

    def ring(self) -> None:
        """Wake everyone who waits."""
        with self._changed:
            self.rings += 1
            self._changed.notify_all()

    def wait(self, seen: int, timeout_seconds: float) -> bool:
        """Return True once there were more than `seen` rings, False when the time is over."""
        with self._changed:
            return self._changed.wait_for(lambda: self.rings > seen, timeout_seconds)


class Subscriber:
    """Listen to nudges in a daemon thread, reconnecting for ever."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._lock = threading.Lock()
        self._bells: dict[int, Bell] = {}
        self._listeners: set[Listener] = set()
        self._thread: threading.Thread | None = None

    def bell(self, run_id: int) -> Bell:
        """Return the bell of a run, starting the thread with the first one."""
        self._start()
        with self._lock:
            return self._bells.setdefault(run_id, Bell())

    def add(self, listener: Listener) -> None:
        """Call `listener` in the subscriber's thread for each nudge."""
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
                # Said once for each time that Redis goes away, not at each attempt.
                if pause == FIRST_PAUSE_SECONDS:
                    logger.warning("no nudges, pages and waiting requests poll: %s", error)
            except Exception:
                logger.exception("the subscriber to nudges failed and begins again")
            if time.monotonic() - began > LONGEST_PAUSE_SECONDS:
                pause = FIRST_PAUSE_SECONDS
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    def _listen(self) -> None:
        # redis-py 8 gives idle sockets five seconds; a quiet deck must stay subscribed.
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
            self._ring_all()
            while True:
                message = pubsub.get_message(timeout=HEALTH_CHECK_SECONDS)
                if message is not None:
                    self._heard(message)

    def _ring_all(self) -> None:
        with self._lock:
            bells, listeners = list(self._bells.values()), list(self._listeners)
        for bell in bells:
            bell.ring()
        for listener in listeners:
            listener(None)

    def _heard(self, message: dict[str, Any]) -> None:
        try:
            nudge = msgspec.json.decode(message["data"], type=Nudge)
        except (msgspec.MsgspecError, TypeError):
            return
        if nudge.origin != this_origin():
            self.deliver(nudge)

    def deliver(self, nudge: Nudge) -> None:
        """Wake who waits here for this change."""
        with self._lock:
            bell, listeners = self._bells.get(nudge.run), list(self._listeners)
        if bell is not None:
            bell.ring()
        for listener in listeners:
            listener(nudge)


_subscribers: dict[str, Subscriber] = {}
_subscribers_lock = threading.Lock()


def subscriber() -> Subscriber:
    """Return the process' one subscriber."""
    url: str = settings.REDIS_URL
    with _subscribers_lock:
        if url not in _subscribers:
            _subscribers[url] = Subscriber(url)
        return _subscribers[url]


def _deliver_here(nudge: Nudge) -> None:
    """Wake waiters of this process without the way through Redis."""
    known = _subscribers.get(settings.REDIS_URL)
    if known is not None:
        known.deliver(nudge)


hear_here(_deliver_here)


def ticket(run_id: int) -> Ticket:
    """Return a ticket to take before checking; announcements after it are not missed."""
    return Ticket(run_id=run_id, seen=subscriber().bell(run_id).rings)


def wait(taken: Ticket, timeout_seconds: float) -> bool:
    """Block until the run is announced after `taken`; return False when the time is over.

    The caller has given its database connection back (``connection.close()``).
    """
    return subscriber().bell(taken.run_id).wait(taken.seen, timeout_seconds)
