"""Know which segment is written to, and make the next one's partition.

A segment is a stretch of time: a partition of the payload table and a folder of objects, which
are dropped together and whole.
"""

import threading
import time
from typing import Final

from django.db import connection, transaction

# A process may write to a sealed segment for this long, and for the length of its transaction.
CACHED_SECONDS: Final = 1.0

_FIND: Final = "SELECT number FROM buffer_segment WHERE sealed_at IS NULL"
_OPEN: Final = """
    INSERT INTO buffer_segment (number, opened_at, items, size_bytes)
    VALUES (%s, now(), 0, 0) ON CONFLICT DO NOTHING"""

_lock = threading.Lock()
_cached: tuple[int, float] | None = None


def current_segment() -> int:
    """Return the number of the segment that is written to now."""
    global _cached
    cached, asked_at = _cached, time.monotonic()
    if cached is not None and asked_at < cached[1]:
        return cached[0]
    number = _open_number()
    if number is None:
        # Not remembered: this transaction may be rolled back.
        return open_segment()
    with _lock:
        _cached = (number, asked_at + CACHED_SECONDS)
    return number


def forget_current_segment() -> None:
    """Ask the database the next time."""
    global _cached
    with _lock:
        _cached = None


def _open_number() -> int | None:
    with connection.cursor() as cursor:
        cursor.execute(_FIND)
        row = cursor.fetchone()
    return None if row is None else int(row[0])


@transaction.atomic
def open_segment() -> int:
    """Open the segment after the newest one, unless one is open; return the open one's number."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext('rolldeck.segment'))")
        number = _open_number()
        if number is not None:
            return number
        cursor.execute("SELECT COALESCE(MAX(number), 0) + 1 FROM buffer_segment")
        number = int(cursor.fetchone()[0])
        make_partition(number)
        cursor.execute(_OPEN, [number])
    return number


@transaction.atomic
def make_partition(number: int) -> None:
    """Make the partition of a segment if it is not there.

    The table is made first and attached then: so readers and writers of others never wait.
    """
    table = f"buffer_payload_{number:d}"
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext('rolldeck.partition'))")
        cursor.execute("SELECT to_regclass(%s)", [table])
        if cursor.fetchone()[0] is not None:
            return
        cursor.execute(f"CREATE TABLE {table} (LIKE buffer_payload INCLUDING ALL)")
        cursor.execute(
            f"ALTER TABLE buffer_payload ATTACH PARTITION {table} FOR VALUES IN ({number:d})"
        )
