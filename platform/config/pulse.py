"""Let a process of the deck say every few seconds that it lives.

A row of its own in the database, written by a thread of its own: whoever looks at the deck sees
the age of each process' last word, and what is gone shows as unknown, never as well.
"""

import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from django.db import DatabaseError, connection
from django.utils import timezone

from config.versions import own_version
from runs import services

logger = logging.getLogger(__name__)

EVERY_SECONDS: Final = 15.0
_MEMORY: Final = Path("/proc/self/statm")


def begin(
    kind: str, *, name: str = "", tell: Callable[[], dict[str, Any]] = dict, forks: bool = False
) -> None:
    """Start the thread that proves that this process lives.

    Args:
        kind: One of :data:`runs.models.PART_KINDS`.
        name: One of its kind; host and process id when not said.
        tell: Returns what else there is to say, each time.
        forks: The process forks others and has no other use for the database: nothing of it
            stays open between two words.
    """
    pulse = _Pulse(kind, name or f"{socket.gethostname()}:{os.getpid()}", tell, forks=forks)
    threading.Thread(target=pulse.beat_for_ever, name="rolldeck-pulse", daemon=True).start()


class _Pulse:
    def __init__(
        self, kind: str, name: str, tell: Callable[[], dict[str, Any]], *, forks: bool
    ) -> None:
        self._kind = kind
        self._name = name
        self._tell = tell
        self._forks = forks
        self._host = socket.gethostname()
        self._started_at = timezone.now()
        self._is_first = True

    def beat_for_ever(self) -> None:
        """Say it again and again; a database that is away is tried the next time."""
        while True:
            try:
                self._beat()
            except (DatabaseError, OSError) as error:
                logger.info("nobody hears that this process lives: %s", error)
            finally:
                connection.close()
                if self._forks:
                    connection.close_pool()  # type: ignore[attr-defined] # PostgreSQL has one
            time.sleep(EVERY_SECONDS)

    def _beat(self) -> None:
        if self._is_first:
            # A restarted deck does not show the processes that it was.
            services.forget_dead_parts(host=self._host, is_alive=is_alive)
            self._is_first = False
        services.prove_part(
            kind=self._kind,
            name=self._name,
            host=self._host,
            pid=os.getpid(),
            started_at=self._started_at,
            version=own_version(),
            details={"memory_bytes": memory_bytes(), **self._tell()},
            now=timezone.now(),
        )


def is_alive(pid: int) -> bool:
    """Return whether this machine has a process of that id."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # somebody else's
    return True


def memory_bytes() -> int | None:
    """Return what this process has in memory; None where nobody says so."""
    if sys.platform != "linux":
        return None
    return int(_MEMORY.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
