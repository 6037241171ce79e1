"""Heartbeats of the deployment's processes.

A thread of each process updates its own database row every few seconds. The cluster page shows the
age of each heartbeat; a process without a recent one has the state unknown.
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
from runs.deployment.services import delete_dead_processes, record_heartbeat

logger = logging.getLogger(__name__)

EVERY_SECONDS: Final = 15.0
_MEMORY: Final = Path("/proc/self/statm")


def start(
    kind: str,
    *,
    name: str = "",
    read_details: Callable[[], dict[str, Any]] = dict,
    forks: bool = False,
) -> None:
    """Start the heartbeat thread of this process.

    Args:
        kind: One of :data:`runs.models.PART_KINDS`.
        name: Name unique within its kind; host and process id by default.
        read_details: Returns further details for each heartbeat.
        forks: Whether the process forks others and does not use the database otherwise; its
            connection is then closed after each heartbeat.
    """
    host, started_at = socket.gethostname(), timezone.now()

    def send_heartbeats() -> None:
        is_first = True
        while True:
            try:
                if is_first:
                    # Removes the processes of the server before its restart.
                    delete_dead_processes(host=host, is_alive=is_alive)
                    is_first = False
                record_heartbeat(
                    kind=kind,
                    name=name or f"{host}:{os.getpid()}",
                    host=host,
                    pid=os.getpid(),
                    started_at=started_at,
                    version=own_version(),
                    details={"memory_bytes": memory_bytes(), **read_details()},
                    now=timezone.now(),
                )
            except (DatabaseError, OSError) as error:  # retried at the next interval
                logger.info("heartbeat failed: %s", error)
            finally:
                connection.close()
                if forks:
                    connection.close_pool()  # type: ignore[attr-defined] # PostgreSQL has one
            time.sleep(EVERY_SECONDS)

    threading.Thread(target=send_heartbeats, name="rolldeck-heartbeat", daemon=True).start()


def is_alive(pid: int) -> bool:
    """Return whether this machine has a process with this id."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # owned by another user
    return True


def memory_bytes() -> int | None:
    """Return the resident memory of this process; None if the system does not report it."""
    if sys.platform != "linux":
        return None
    return int(_MEMORY.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
