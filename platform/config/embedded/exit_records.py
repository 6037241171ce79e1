"""Store why parts of the deployment exited, for *Cluster* and alerts."""

import logging
import queue
import socket
import threading
import time
from collections.abc import Callable
from datetime import datetime
from typing import Final, NamedTuple

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from runs.deployment.services import record_exit, record_failed_check

logger = logging.getLogger(__name__)

RETRY_SECONDS: Final = 5.0
MOST_WAITING: Final = 100


class Exit(NamedTuple):
    """The exit of a part."""

    part: str
    reason: str
    log: str
    """Its last lines."""
    at: datetime


class ExitRecords:
    """Exits that a thread stores in the background, as the database may be restarting too.

    Args:
        close: Closes the thread's database connections.
    """

    def __init__(self, close: Callable[[], None]) -> None:
        self._close = close
        self._waiting: queue.Queue[Exit] = queue.Queue(MOST_WAITING)

    def start(self) -> None:
        """Start the thread."""
        threading.Thread(target=self._run, name="rolldeck-exit-records", daemon=True).start()

    def add(self, part: str, reason: str, log: str) -> None:
        """Store an exit as soon as the database is available; never waits."""
        try:
            self._waiting.put_nowait(Exit(part, reason, log, timezone.now()))
        except queue.Full:
            logger.warning("exit of %s not recorded: %d wait for the database", part, MOST_WAITING)

    def _run(self) -> None:
        while True:
            found = self._waiting.get()
            while not self._is_stored(found):
                time.sleep(RETRY_SECONDS)

    def _is_stored(self, found: Exit) -> bool:
        try:
            store(found)
        except Exception as error:  # noqa: BLE001 any outage of the database
            logger.debug("exit of %s not recorded yet: %s", found.part, error)
            return False
        finally:
            self._close()
        return True


@transaction.atomic
def store(found: Exit) -> None:
    """Store an exit; Ray is also shown as down, as it sends no heartbeats of its own."""
    record_exit(
        host=socket.gethostname(),
        part=found.part,
        reason=found.reason,
        log=found.log,
        now=found.at,
    )
    if found.part == "ray":
        record_failed_check(
            kind="ray", name=settings.RAY_ADDRESS, problem=found.reason, now=found.at
        )
