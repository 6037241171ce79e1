"""Token counts of leased batches."""

from typing import NamedTuple

from django.db.models import Max, Sum

from buffer.items.models.items import Batch


class HandedOut(NamedTuple):
    """Tokens of batches, and the ordinal of the last batch."""

    tokens: int
    ordinal: int


def tokens_handed_out(run_id: int, *, after_ordinal: int) -> HandedOut:
    """Return the tokens of a run's batches after batch `after_ordinal`; 0 for fragments."""
    later = Batch.objects.filter(run_id=run_id, ordinal__gt=after_ordinal)
    found = later.aggregate(tokens=Sum("tokens"), ordinal=Max("ordinal"))
    return HandedOut(int(found["tokens"] or 0), int(found["ordinal"] or after_ordinal))
