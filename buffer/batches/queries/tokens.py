"""Token counts of leased batches."""

from typing import NamedTuple

from django.db.models import Max, Sum

from buffer.items.models.items import Batch


class ServedTokens(NamedTuple):
    """Tokens of batches, and the ordinal of the last batch."""

    tokens: int
    ordinal: int


def served_tokens_after(run_id: int, *, after_ordinal: int) -> ServedTokens:
    """Return the tokens of a run's batches after batch `after_ordinal`; 0 for fragments."""
    later = Batch.objects.filter(run_id=run_id, ordinal__gt=after_ordinal)
    found = later.aggregate(tokens=Sum("tokens"), ordinal=Max("ordinal"))
    return ServedTokens(int(found["tokens"] or 0), int(found["ordinal"] or after_ordinal))
