"""Buffer the last API calls of this process and flush them periodically.

Recording a request costs one append to a bounded list; a separate thread writes the calls worth
keeping every few seconds. A process that dies loses the last seconds: the calls are for debugging,
not a complete record.
"""

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import cache
from typing import Final

from runs.access.rules.call_digest import Call, digest

logger = logging.getLogger(__name__)

# Between two flushes; further calls evict the oldest.
CALLS_AT_MOST: Final = 20_000
FLUSH_SECONDS: Final = 2.0
Keep = Callable[[list[Call]], None]


class CallBook:
    """Calls since the last flush, and the thread that flushes them."""

    def __init__(self, keep: Keep, *, flush_seconds: float = FLUSH_SECONDS) -> None:
        self._keep = keep
        self._flush_seconds = flush_seconds
        self._calls: deque[Call] = deque(maxlen=CALLS_AT_MOST)
        self._filled = threading.Event()
        threading.Thread(target=self._flush_for_ever, name="rolldeck-calls", daemon=True).start()

    def add(self, call: Call) -> None:
        """Buffer a call; never wait, never raise."""
        self._calls.append(call)
        if not self._filled.is_set():
            self._filled.set()

    def flush(self) -> None:
        """Flush the buffered calls."""
        calls = []
        while self._calls:
            calls.append(self._calls.popleft())
        if calls:
            self._keep(digest(calls))

    def _flush_for_ever(self) -> None:
        while True:
            self._filled.wait()
            time.sleep(self._flush_seconds)
            self._filled.clear()
            try:
                self.flush()
            except Exception:
                logger.exception("API calls of the last seconds were not stored")


@cache
def _book(keep: Keep, pid: int) -> CallBook:  # noqa: ARG001 threads do not survive a fork
    return CallBook(keep)


def book(keep: Keep) -> CallBook:
    """Return the call book of this process, which flushes to `keep`."""
    return _book(keep, os.getpid())
