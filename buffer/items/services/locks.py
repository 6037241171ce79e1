"""Advisory locks that serialise work on one run, held until the end of the transaction."""

from datetime import datetime
from typing import Final

from django.db import connection

from web import database
from web.sql import statements_of

SQL: Final = statements_of("buffer")


def lock_run(run_id: int) -> datetime:
    """Lock the forming, leasing and settling of a run's batches until the transaction ends.

    Returns the database time at which the lock was acquired.
    """
    with database.cursor() as cursor:
        row = cursor.execute(SQL["lock_run"], [run_id], prepare=True).fetchone()
    assert row is not None  # noqa: S101 a query without FROM has a row
    locked_at: datetime = row[1]
    return locked_at


def lock_slots(run_id: int, slots: set[str]) -> None:
    """Lock the forming of chunks of these slots until the transaction ends."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_advisory_xact_lock(hashtext('rolldeck.slot'), key) FROM"
            " (SELECT DISTINCT hashtext(name) AS key FROM unnest(%s::text[]) AS name ORDER BY key)",
            [[f"{run_id}:{slot}" for slot in slots]],
        )
