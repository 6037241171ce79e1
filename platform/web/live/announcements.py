"""Publish change notices: which parts of which run changed, not the change itself.

Redis may fail at any time. A lost notice delays a page by two seconds and a waiting request by one,
because both also poll.
"""

import logging
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Final

import msgspec
import redis
from django.conf import settings
from django.db import transaction
from redis.backoff import NoBackoff
from redis.retry import Retry

logger = logging.getLogger(__name__)

CHANNEL: Final = "rolldeck:live"
# Run id of changes that concern the deployment.
NO_RUN: Final = 0
# A change must not wait for an unresponsive broker.
TIMEOUT_SECONDS: Final = 0.25
# While the broker is unavailable, notices are skipped for this long after each failure.
PAUSE_SECONDS: Final = 1.0
# Notices to other processes are batched for this long; this process receives them at once.
GATHER_SECONDS: Final = 0.005
# Batch time while no other process listens: a new listener reads the database first.
NO_LISTENER_SECONDS: Final = 0.05


class ChangeNotice(msgspec.Struct, frozen=True):
    """Changed parts of a run, and the process that announced them."""

    run: int
    parts: list[str]
    origin: str = ""
    committed_at: float | None = None
    """Commit time of the newest change, in seconds since 1970, on the committing machine's
    clock."""


class Publisher:
    """Publisher that never raises and never waits long."""

    def __init__(self, url: str) -> None:
        self._client = redis.Redis.from_url(
            url,
            socket_timeout=TIMEOUT_SECONDS,
            socket_connect_timeout=TIMEOUT_SECONDS,
            retry=Retry(NoBackoff(), 0),
        )
        self._lock = threading.Lock()
        self._silent_until = 0.0

    def publish(self, notice: ChangeNotice) -> int:
        """Send a notice, or drop it without a broker; return the number of listeners."""
        if time.monotonic() < self._silent_until:
            return 0
        try:
            return int(self._client.publish(CHANNEL, msgspec.json.encode(notice)))
        except (redis.RedisError, OSError) as error:
            with self._lock:
                self._silent_until = time.monotonic() + PAUSE_SECONDS
            logger.warning("change notice not sent, pages poll instead: %s", error)
            return 0

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


class Outbox:
    """Publisher thread that merges queued notices of one run."""

    def __init__(self, publisher: Publisher, *, origin: str) -> None:
        self._publisher = publisher
        self._origin = origin
        self._waiting: dict[int, dict[str, float | None]] = {}
        self._lock = threading.Lock()
        self._filled = threading.Event()
        threading.Thread(
            target=self._publish_for_ever, name="rolldeck-notices", daemon=True
        ).start()

    def add(self, notice: ChangeNotice) -> None:
        """Queue a notice; never wait, never raise."""
        with self._lock:
            waiting = self._waiting.setdefault(notice.run, {})
            waiting.update(dict.fromkeys(notice.parts, notice.committed_at))
        self._filled.set()

    def _publish_for_ever(self) -> None:
        while True:
            self._filled.wait()
            self._filled.clear()
            with self._lock:
                waiting, self._waiting = self._waiting, {}
            listening = 0
            for run_id, parts in waiting.items():
                notice = ChangeNotice(
                    run=run_id,
                    parts=sorted(parts),
                    origin=self._origin,
                    committed_at=max(filter(None, parts.values()), default=None),
                )
                listening = self._publisher.publish(notice)
            others_listen = listening > own_subscriptions.count
            time.sleep(GATHER_SECONDS if others_listen else NO_LISTENER_SECONDS)


class OwnSubscriptions:
    """Number of this process's own subscriptions to the channel."""

    def __init__(self) -> None:
        self.count = 0
        self._lock = threading.Lock()

    @contextmanager
    def one(self) -> Iterator[None]:
        """Count one subscription during the block."""
        with self._lock:
            self.count += 1
        try:
            yield
        finally:
            with self._lock:
                self.count -= 1


own_subscriptions = OwnSubscriptions()
_here: list[Callable[[ChangeNotice], None]] = []


def listen_locally(listener: Callable[[ChangeNotice], None]) -> None:
    """Call `listener` for each notice of this process, immediately, in the announcing thread."""
    _here.append(listener)


@cache
def _origin(pid: int) -> str:
    return f"{pid}-{uuid.uuid4().hex[:12]}"


def this_origin() -> str:
    """Return the name of this process in its notices."""
    return _origin(os.getpid())


@cache
def _outbox(url: str, pid: int) -> Outbox:
    """Return the outbox of a process: threads do not survive a fork."""
    return Outbox(Publisher(url), origin=_origin(pid))


def announce(run_id: int, *parts: str) -> None:
    """Notify watchers of a run that `parts` changed, after the commit."""

    def send() -> None:
        notice = ChangeNotice(run=run_id, parts=list(parts), committed_at=time.time())
        for listener in _here:
            listener(notice)
        if settings.REDIS_URL:
            _outbox(settings.REDIS_URL, os.getpid()).add(notice)

    transaction.on_commit(send, robust=True)
