"""Count failed sign-ins.

Counted in each web process by itself: with N processes an attacker gets N times the attempts,
which is still few, and no request ever waits for a shared counter.
"""

import threading
import time
from collections import deque
from typing import Final

FAILURES: Final = 5
WINDOW_SECONDS: Final = 60.0
MAX_KEYS: Final = 10_000


class LoginAttempts:
    """Refuse a key after :data:`FAILURES` failures in :data:`WINDOW_SECONDS`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failures: dict[str, deque[float]] = {}

    def exhausted(self, key: str) -> bool:
        """Return whether `key` has to wait."""
        with self._lock:
            return len(self._recent(key)) >= FAILURES

    def failed(self, key: str) -> None:
        """Note a failure of `key`."""
        with self._lock:
            if len(self._failures) >= MAX_KEYS:
                self._failures.clear()
            self._failures.setdefault(key, deque(maxlen=FAILURES)).append(time.monotonic())

    def succeeded(self, key: str) -> None:
        """Forget the failures of `key`."""
        with self._lock:
            self._failures.pop(key, None)

    def clear(self) -> None:
        """Forget every failure."""
        with self._lock:
            self._failures.clear()

    def _recent(self, key: str) -> deque[float]:
        failures = self._failures.get(key, deque())
        while failures and failures[0] < time.monotonic() - WINDOW_SECONDS:
            failures.popleft()
        return failures


attempts = LoginAttempts()
