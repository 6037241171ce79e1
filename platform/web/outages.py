"""Recognize errors of an unavailable database or broker, and of a process without resources.

Such requests may succeed later: they are answered 503 with `Retry-After`, on every route.
"""

import errno
from typing import Final

import django.db
import kombu.exceptions
import psycopg
import redis

from web.rules.errors import Unavailable

RETRY_AFTER_SECONDS: Final = 1
# Pool timeouts, refused and lost connections, a server that starts or stops, lock and statement
# timeouts. Programming errors are of other classes.
DATABASE_ERRORS: Final = (
    django.db.OperationalError,
    django.db.InterfaceError,
    psycopg.OperationalError,
    psycopg.InterfaceError,
)
BROKER_ERRORS: Final = (
    redis.ConnectionError,
    redis.TimeoutError,
    kombu.exceptions.OperationalError,
)
NO_RESOURCES: Final = frozenset({errno.ENOMEM, errno.EMFILE, errno.ENFILE})
NO_THREAD: Final = "can't start new thread"
"""Text of Python's RuntimeError, which has no class of its own."""
# Without the server's message, which names hosts, users and folders.
DETAIL: Final = f"a server of the platform is unavailable; retry after {RETRY_AFTER_SECONDS} s"


class Outage(Unavailable):
    """A server of the platform is unavailable."""

    retry_after_seconds = RETRY_AFTER_SECONDS

    def __init__(self) -> None:
        super().__init__(DETAIL)


def is_outage(error: BaseException | None) -> bool:
    """Return whether the error, or one of its causes, is an outage.

    Sessions and transactions wrap a lost connection in their own errors.
    """
    while error is not None:
        if isinstance(error, (*DATABASE_ERRORS, *BROKER_ERRORS)) or _is_without_resources(error):
            return True
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return False


def _is_without_resources(error: BaseException) -> bool:
    """Return whether the process has no memory, descriptor or thread left."""
    if isinstance(error, OSError):
        return error.errno in NO_RESOURCES
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and str(error) == NO_THREAD
    )
