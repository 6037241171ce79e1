"""Put seeded events in the order of their times.

Runs are written one after the other, and each of them tells of hours: their events come in the
order of runs. Histories and the audit show events by their numbers, which everywhere else rise
with time.
"""

from typing import Final

from django.db import connection, transaction
from django.db.models import Max

from runs.models import RunEvent

# The numbers stay the same, they are only dealt out anew; negative ones are out of the way of
# those that are not yet replaced.
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
    """Return the number of the newest event; 0 before the first."""
    return RunEvent.objects.aggregate(Max("id"))["id__max"] or 0


@transaction.atomic
def put_in_order(*, after: int) -> None:
    """Let the numbers of the events behind `after` rise with their times."""
    with connection.cursor() as cursor:
        cursor.execute(_DEAL, [after, after])
        cursor.execute(_TURN)
