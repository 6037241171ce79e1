"""Publish nudges: which parts of which run changed, never the change itself.

Redis may vanish at any moment. A lost nudge costs a page two seconds and a waiting request one,
because both look again by themselves.
"""

import logging
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import Final

import msgspec
import redis
from django.conf import settings
from django.db import transaction
from redis.backoff import NoBackoff
from redis.retry import Retry

logger = logging.getLogger(__name__)

CHANNEL: Final = "rolldeck:live"
# In place of a run's id: what changed belongs to the whole deck.
NO_RUN: Final = 0
# A change must not wait for a broker that hangs.
TIMEOUT_SECONDS: Final = 0.25
# While the broker is away, nudges are skipped for this long after each failure.
PAUSE_SECONDS: Final = 1.0
# Nudges of other processes gather for this long; those of this one are heard at once.
GATHER_SECONDS: Final = 0.005
# … and this long while no other process listens: one that begins to listen looks by itself first.
UNHEARD_SECONDS: Final = 0.05


class Nudge(msgspec.Struct, frozen=True):
    """Parts of a run that changed, and the process that heard of it first."""

    run: int
    parts: list[str]
    origin: str = ""
    committed_at: float | None = None
    """When the newest of it was committed, in seconds since 1970, as who committed it knows."""


class Publisher:
    """Publish without ever raising or waiting long."""

    def __init__(self, url: str) -> None:
        self._client = redis.Redis.from_url(
            url,
            socket_timeout=TIMEOUT_SECONDS,
            socket_connect_timeout=TIMEOUT_SECONDS,
            retry=Retry(NoBackoff(), 0),
        )
        self._lock = threading.Lock()
        self._silent_until = 0.0

    def publish(self, nudge: Nudge) -> int:
        """Send `nudge`, or drop it when the broker is away; return how many listen."""
        if time.monotonic() < self._silent_until:
            return 0
        try:
            return int(self._client.publish(CHANNEL, msgspec.json.encode(nudge)))
        except (redis.RedisError, OSError) as error:
            with self._lock:
                self._silent_until = time.monotonic() + PAUSE_SECONDS
            logger.warning("nudge not sent, pages poll instead: %s", error)
            return 0

    def close(self) -> None:
        """Give the connection back."""
        self._client.close()


class Outbox:
    """Publish from a thread of its own; nudges of one run that wait together become one."""

    def __init__(self, publisher: Publisher, *, origin: str) -> None:
        self._publisher = publisher
        self._origin = origin
        self._waiting: dict[int, dict[str, float | None]] = {}
        self._lock = threading.Lock()
        self._filled = threading.Event()
        threading.Thread(target=self._publish_for_ever, name="rolldeck-nudges", daemon=True).start()

    def add(self, nudge: Nudge) -> None:
        """Publish soon; never wait, never raise."""
        with self._lock:
            waiting = self._waiting.setdefault(nudge.run, {})
            waiting.update(dict.fromkeys(nudge.parts, nudge.committed_at))
        self._filled.set()

    def _publish_for_ever(self) -> None:
        while True:
            self._filled.wait()
            self._filled.clear()
            with self._lock:
                waiting, self._waiting = self._waiting, {}
            listening = 0
            for run_id, parts in waiting.items():
                nudge = Nudge(
                    run=run_id,
                    parts=sorted(parts),
                    origin=self._origin,
                    committed_at=max(filter(None, parts.values()), default=None),
                )
                listening = self._publisher.publish(nudge)
            others_listen = listening > own_subscriptions.count
            time.sleep(GATHER_SECONDS if others_listen else UNHEARD_SECONDS)


class OwnSubscriptions:
    """How often this process listens to the channel itself."""

    def __init__(self) -> None:
        self.count = 0
        self._lock = threading.Lock()

    @contextmanager
    def one(self) -> Iterator[None]:
        """Count one subscription while the block runs."""
        with self._lock:
            self.count += 1
        try:
            yield
        finally:
            with self._lock:
                self.count -= 1


own_subscriptions = OwnSubscriptions()
_here: list[Callable[[Nudge], None]] = []


def hear_here(listener: Callable[[Nudge], None]) -> None:
    """Call `listener` for each nudge of this process, at once and in the announcing thread."""
    _here.append(listener)


@cache
def _origin(pid: int) -> str:
    return f"{pid}-{uuid.uuid4().hex[:12]}"


def this_origin() -> str:
    """Return the name of this process in its nudges."""
    return _origin(os.getpid())


@cache
def _outbox(url: str, pid: int) -> Outbox:
    """Return the outbox of a process: threads do not follow a fork."""
    return Outbox(Publisher(url), origin=_origin(pid))


def announce(run_id: int, *parts: str) -> None:
    """Tell whoever watches the run to look again at `parts`, once the change is committed."""
    transaction.on_commit(partial(_send, run_id, list(parts)), robust=True)


def _send(run_id: int, parts: list[str]) -> None:
    nudge = Nudge(run=run_id, parts=parts, committed_at=time.time())
    for listener in _here:
        listener(nudge)
    if settings.REDIS_URL:
        _outbox(settings.REDIS_URL, os.getpid()).add(nudge)
