"""Take the locks that serialise work on one run. They live as long as their transaction."""

from datetime import datetime
from typing import Final

from django.db import connection

from buffer.items.queries import database

_LOCK_RUN: Final = """
    SELECT pg_advisory_xact_lock(hashtext('rolldeck.batch'), %s::int), clock_timestamp()"""


def lock_run(run_id: int) -> datetime:
    """Let nobody else form, lease or settle batches of the run until the transaction ends.

    Returns the database's time at which the lock was got.
    """
    with database.cursor() as cursor:
        row = cursor.execute(_LOCK_RUN, [run_id], prepare=True).fetchone()
    assert row is not None  # noqa: S101 a query without FROM has a row
    locked_at: datetime = row[1]
    return locked_at


def lock_slots(run_id: int, slots: set[str]) -> None:
    """Let nobody else cut chunks of these env slots until the transaction ends."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_advisory_xact_lock(hashtext('rolldeck.slot'), key) FROM"
            " (SELECT DISTINCT hashtext(name) AS key FROM unnest(%s::text[]) AS name ORDER BY key)",
            [[f"{run_id}:{slot}" for slot in slots]],
        )
