"""The open segment, and the partitions of segments.

A segment is a period: a partition of the payload table and a folder of objects, which are dropped
together.
"""

import threading
import time
from datetime import datetime
from typing import Final

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Count, Sum

from buffer.items.models import FragmentChunk, TrajectoryGroup
from buffer.payloads.models import Segment
from buffer.payloads.rules import SegmentInfo, is_full, is_settled
from buffer.payloads.services import objects
from web.sql import statements_of

SQL: Final = statements_of("buffer")


def segment_info(row: Segment) -> SegmentInfo:
    """Return a segment in the form that the retention rules read."""
    return SegmentInfo(
        number=row.number,
        opened_at=row.opened_at,
        sealed_at=row.sealed_at,
        items=row.items,
        size_bytes=row.size_bytes,
    )


def rotate_segment(*, now: datetime) -> int:
    """Update the sizes of segments, and seal the open one if it is full.

    Returns:
        The number of the open segment.
    """
    number = open_segment()
    make_partition(number + 1)
    for row in Segment.objects.filter(dropped_at=None).order_by("number"):
        if not is_settled(segment_info(row), now=now):
            items = size_bytes = 0
            for model in (TrajectoryGroup, FragmentChunk):
                items_of_segment = model.objects.filter(segment=row.number)
                found = items_of_segment.aggregate(items=Count("id"), size_bytes=Sum("size_bytes"))
                items += found["items"]
                size_bytes += found["size_bytes"] or 0
            Segment.objects.filter(number=row.number).update(items=items, size_bytes=size_bytes)
    open_ = Segment.objects.get(sealed_at=None)
    if is_full(
        segment_info(open_),
        now=now,
        seconds=settings.ROLLDECK_SEGMENT_SECONDS,
        size_bytes=settings.ROLLDECK_SEGMENT_BYTES,
    ):
        return seal(open_.number, now=now)
    return open_.number


@transaction.atomic
def seal(number: int, *, now: datetime) -> int:
    """Seal a segment, and return the number of the new open segment."""
    Segment.objects.filter(number=number, sealed_at=None).update(sealed_at=now)
    opened = open_segment()
    transaction.on_commit(clear_current_segment)
    return opened


# A process may write to a sealed segment for this long, plus the duration of its transaction.
CACHED_SECONDS: Final = 1.0


# A detach waits for every transaction that uses the table; the next pass of the job continues it.
_STATEMENT_TIMEOUT: Final = "30s"

_lock = threading.Lock()
_cached: tuple[int, float] | None = None


def current_segment() -> int:
    """Return the number of the open segment."""
    global _cached
    cached, asked_at = _cached, time.monotonic()
    if cached is not None and asked_at < cached[1]:
        return cached[0]
    number = _open_number()
    if number is None:
        # Not cached: this transaction may be rolled back.
        return open_segment()
    with _lock:
        _cached = (number, asked_at + CACHED_SECONDS)
    return number


def clear_current_segment() -> None:
    """Clear the cache, so that the next call reads the database."""
    global _cached
    with _lock:
        _cached = None


def _open_number() -> int | None:
    with connection.cursor() as cursor:
        cursor.execute(SQL["open_segment"])
        row = cursor.fetchone()
    return None if row is None else int(row[0])


@transaction.atomic
def open_segment() -> int:
    """Open a new segment unless one is open; return the number of the open segment."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext('rolldeck.segment'))")
        number = _open_number()
        if number is not None:
            return number
        cursor.execute("SELECT COALESCE(MAX(number), 0) + 1 FROM buffer_segment")
        number = int(cursor.fetchone()[0])
        make_partition(number)
        cursor.execute(SQL["insert_segment"], [number])
    return number


@transaction.atomic
def make_partition(number: int) -> None:
    """Create the partition of a segment if it does not exist.

    The table is created first and then attached, so that users of other partitions never wait.
    """
    table = _table(number)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext('rolldeck.partition'))")
        cursor.execute("SELECT to_regclass(%s)", [table])
        if cursor.fetchone()[0] is not None:
            return
        cursor.execute(f"CREATE TABLE {table} (LIKE buffer_payload INCLUDING ALL)")
        cursor.execute(
            f"ALTER TABLE buffer_payload ATTACH PARTITION {table} FOR VALUES IN ({number:d})"
        )


def remove_segment(number: int) -> None:
    """Remove the partition and the objects of a segment, as far as they exist.

    The partition is first detached concurrently, which blocks no other statements.

    Raises:
        TransactionManagementError: If called in a transaction, where this detach is not allowed.
    """
    if connection.in_atomic_block:
        raise transaction.TransactionManagementError(
            "partitions must be removed outside of transactions"
        )
    table = _table(number)
    with connection.cursor() as cursor:
        cursor.execute(f"SET statement_timeout = '{_STATEMENT_TIMEOUT}'")
        try:
            cursor.execute(SQL["find_partition"], [table])
            for is_attached, is_pending in cursor.fetchall():
                how = "FINALIZE" if is_pending else "CONCURRENTLY"
                if is_attached:
                    cursor.execute(f"ALTER TABLE buffer_payload DETACH PARTITION {table} {how}")
                cursor.execute(f"DROP TABLE {table}")
        finally:
            cursor.execute("RESET statement_timeout")
    objects.remove_folder(str(number))


def _table(number: int) -> str:
    return f"buffer_payload_{number:d}"
