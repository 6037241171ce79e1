"""Take the locks that serialise work on one run. They live as long as their transaction."""

from datetime import datetime

from django.db import connection


def lock_run(run_id: int) -> datetime:
    """Let nobody else form, lease or settle batches of the run until the transaction ends.

    Returns the database's time at which the lock was got.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_advisory_xact_lock(hashtext('rolldeck.batch'), %s), clock_timestamp()",
            [run_id],
        )
        locked_at: datetime = cursor.fetchone()[1]
    return locked_at


def lock_slots(run_id: int, slots: set[str]) -> None:
    """Let nobody else cut chunks of these env slots until the transaction ends."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_advisory_xact_lock(hashtext('rolldeck.slot'), key) FROM"
            " (SELECT DISTINCT hashtext(name) AS key FROM unnest(%s::text[]) AS name ORDER BY key)",
            [[f"{run_id}:{slot}" for slot in slots]],
        )
