"""Publish nudges: which parts of which run changed, never the change itself.

Redis may vanish at any moment. A lost nudge costs a page two seconds and a waiting request one,
because both look again by themselves.
"""

import logging
import threading
import time
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
# A change must not wait for a broker that hangs.
TIMEOUT_SECONDS: Final = 0.25
# While the broker is away, nudges are skipped for this long after each failure.
PAUSE_SECONDS: Final = 1.0


class Nudge(msgspec.Struct, frozen=True):
    """Parts of a run that changed."""

    run: int
    parts: list[str]


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

    def publish(self, nudge: Nudge) -> None:
        """Send `nudge`, or drop it when the broker is away."""
        if time.monotonic() < self._silent_until:
            return
        try:
            self._client.publish(CHANNEL, msgspec.json.encode(nudge))
        except (redis.RedisError, OSError) as error:
            with self._lock:
                self._silent_until = time.monotonic() + PAUSE_SECONDS
            logger.warning("nudge not sent, pages poll instead: %s", error)

    def close(self) -> None:
        """Give the connection back."""
        self._client.close()


@cache
def _publisher(url: str) -> Publisher:
    return Publisher(url)


def announce(run_id: int, *parts: str) -> None:
    """Tell whoever watches the run to look again at `parts`, once the change is committed."""
    transaction.on_commit(partial(_send, Nudge(run=run_id, parts=list(parts))), robust=True)


def _send(nudge: Nudge) -> None:
    if settings.REDIS_URL:
        _publisher(settings.REDIS_URL).publish(nudge)
