"""The number of PostgreSQL connections that the processes of a deployment may open."""

import logging
import sys
from typing import Final, cast

from django.conf import settings
from django.db import DatabaseError, connection
from django.db.backends.postgresql.base import DatabaseWrapper

logger = logging.getLogger(__name__)

MACHINE_THREADS: Final = 8
"""Threads of a web process for requests of machines, each with a connection of its own.

Database and disk bound the throughput; more threads would only compete for one core.
"""
JOB_PROCESSES: Final = 2
OTHER_CONNECTIONS: Final = 8
"""For the job worker itself, beat, figures of the cluster page, and commands such as a backup."""


def needed(*, web_processes: int) -> int:
    """Return the largest number of connections that a deployment opens."""
    pool: int = settings.POOL_CONNECTIONS
    return web_processes * (pool + MACHINE_THREADS) + JOB_PROCESSES * pool + OTHER_CONNECTIONS


def problem(*, web_processes: int, most: int, reserved: int) -> str:
    """Return why a server that accepts `most` connections is too small; empty if it suffices."""
    wanted = needed(web_processes=web_processes)
    if wanted <= most - reserved:
        return ""
    return (
        f"ROLLDECK_WEB_WORKERS is {web_processes}: with {JOB_PROCESSES} job processes, up to "
        f"{wanted} PostgreSQL connections are opened, and the server accepts {most - reserved} "
        f"(max_connections is {most}, of which {reserved} are reserved). Set max_connections to "
        f"at least {wanted + reserved}, or ROLLDECK_WEB_WORKERS to a smaller number"
    )


def check_or_exit(*, web_processes: int) -> None:
    """End the process with one line if the database accepts too few connections.

    Without a database the process starts unchecked.
    """
    try:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT current_setting('max_connections')::int,"
                " current_setting('superuser_reserved_connections')::int"
            )
            most, reserved = cursor.fetchone()
    except DatabaseError as error:
        logger.warning("connections not compared with the database: %s", error)
        return
    finally:
        database = cast(DatabaseWrapper, connection)
        database.close()
        database.close_pool()
    if found := problem(web_processes=web_processes, most=most, reserved=reserved):
        sys.exit(f"rolldeck: {found}")
