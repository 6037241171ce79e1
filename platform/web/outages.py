"""Recognize errors that mean the database or the broker is unavailable.

Such requests may succeed later: they are answered 503 with `Retry-After`, on every route.
"""

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
        if isinstance(error, (*DATABASE_ERRORS, *BROKER_ERRORS)):
            return True
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return False
