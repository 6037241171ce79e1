"""Reads of one moment: several queries on one snapshot of the database."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

import psycopg
from django.db import OperationalError, connection, transaction

T = TypeVar("T")

TRIES: Final = 4


@contextmanager
def snapshot() -> Iterator[None]:
    """Run the queries of the block on one snapshot of the database.

    Inside a transaction the block is a part of it, at its isolation level.
    """
    is_outermost = not connection.in_atomic_block
    with transaction.atomic():
        if is_outermost:
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        yield


def read_on_snapshot(read: Callable[[], T]) -> T:
    """Return the result of `read` on one snapshot.

    A read that also writes, to roll it back, fails if another transaction has changed the same
    rows since the snapshot. It is then repeated on a new one. The last of :data:`TRIES` reads each
    query on a snapshot of its own, which does not fail.
    """
    for _ in range(TRIES - 1):
        try:
            with snapshot():
                return read()
        except OperationalError as error:
            if not isinstance(error.__cause__, psycopg.errors.SerializationFailure):
                raise
    with transaction.atomic():
        return read()
