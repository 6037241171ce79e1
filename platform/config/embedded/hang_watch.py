"""Find processes of this deployment that run but send no heartbeats."""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final

logger = logging.getLogger(__name__)

EVERY_SECONDS: Final = 15.0
HUNG_SECONDS: Final = 60.0
"""Time without a new heartbeat; processes send one every 15 seconds."""

ReadHeartbeats = Callable[[], Mapping[int, datetime]]
"""Returns the time of the last heartbeat by process id, or raises if the database is away."""


class HangWatch:
    """Watch over heartbeats, read in a thread.

    Only changes count, on the clock of this process: neither a wrong clock nor a suspended machine
    looks like a hang. A process that has sent no heartbeat yet is not hung.
    """

    def __init__(self, read: ReadHeartbeats) -> None:
        self._read = read
        self._seen: dict[int, tuple[datetime, float]] = {}
        """Last heartbeat, and since when it is the last one."""
        self._hung: frozenset[int] = frozenset()

    def start(self) -> None:
        """Start the thread."""
        threading.Thread(target=self._run, name="rolldeck-hang-watch", daemon=True).start()

    def is_hung(self, pid: int) -> bool:
        """Return whether a process has stopped to send heartbeats."""
        return pid in self._hung

    def update(self, now: float) -> None:
        """Read the heartbeats once; without a database, the time of all begins again.

        Args:
            now: Monotonic seconds.
        """
        try:
            heartbeats = self._read()
        except Exception as error:  # noqa: BLE001 any outage of the database
            logger.debug("heartbeats not read: %s", error)
            heartbeats = {}
        last = self._seen
        self._seen = {
            pid: last[pid] if pid in last and last[pid][0] == at else (at, now)
            for pid, at in heartbeats.items()
        }
        self._hung = frozenset(
            pid for pid, (_, since) in self._seen.items() if now - since >= HUNG_SECONDS
        )

    def _run(self) -> None:
        while True:
            began = time.monotonic()
            self.update(began)
            time.sleep(EVERY_SECONDS)
            if time.monotonic() - began > 2 * EVERY_SECONDS:
                self._seen = {}  # this process was stopped too
