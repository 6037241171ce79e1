"""Record the exits of the server's parts."""

from datetime import datetime, timedelta
from typing import Final

from django.db import transaction

from runs.deployment.models.part_exits import PartExit

SERIES_ENDS_AFTER: Final = timedelta(hours=1)
LOG_LENGTH: Final = 4000


@transaction.atomic
def record_exit(*, host: str, part: str, reason: str, log: str, now: datetime) -> PartExit:
    """Record an exit; an hour without one begins a new series."""
    known = PartExit.objects.select_for_update().filter(host=host, part=part).first()
    goes_on = known is not None and now - known.last_at < SERIES_ENDS_AFTER
    values = {
        "exits": known.exits + 1 if known and goes_on else 1,
        "first_at": known.first_at if known and goes_on else now,
        "last_at": now,
        "reason": _text(reason),
        "log": _text(log)[-LOG_LENGTH:],
    }
    return PartExit.objects.update_or_create(host=host, part=part, defaults=values)[0]


def _text(words: str) -> str:
    """Return a text that PostgreSQL stores: without NUL."""
    return words.replace("\0", "\ufffd")
