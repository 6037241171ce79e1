"""Order sample events by their times.

Runs are written one after the other, and each covers hours, so their events are stored run by
run. Histories and the audit log show events in order of their ids, which normally rise with time.
"""

from typing import Final

from django.db import connection, transaction
from django.db.models import Max

from runs.events.models import RunEvent

# Reassigns the same ids. Negative values avoid conflicts with ids that are not yet replaced.
_DEAL: Final = """
    WITH told AS (
        SELECT id, row_number() OVER (ORDER BY at, id) AS place FROM runs_runevent WHERE id > %s
    ), numbers AS (
        SELECT id, row_number() OVER (ORDER BY id) AS place FROM runs_runevent WHERE id > %s
    )
    UPDATE runs_runevent SET id = -numbers.id FROM told JOIN numbers USING (place)
    WHERE runs_runevent.id = told.id AND told.id <> numbers.id"""
_TURN: Final = "UPDATE runs_runevent SET id = -id WHERE id < 0"


def newest() -> int:
    """Return the id of the newest event; 0 if there is none."""
    return RunEvent.objects.aggregate(Max("id"))["id__max"] or 0


@transaction.atomic
def put_in_order(*, after: int) -> None:
    """Reassign the ids of events above `after` so that they rise with time."""
    with connection.cursor() as cursor:
        cursor.execute(_DEAL, [after, after])
        cursor.execute(_TURN)
