"""Balance what came in against where it is now.

accepted = queued + waiting + leased + served + quarantined + Σ dropped(reason), at any moment.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from buffer.core.fates import Fate


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """Items of one kind in one run, by fate."""

    accepted: int = 0
    queued: int = 0
    waiting: int = 0
    leased: int = 0
    served: int = 0
    quarantined: int = 0
    dropped: dict[str, int] = field(default_factory=dict)

    @property
    def balanced(self) -> bool:
        """Whether every accepted item is in exactly one place."""
        placed = self.queued + self.waiting + self.leased + self.served + self.quarantined
        return self.accepted == placed + sum(self.dropped.values())


ACCEPTED = "accepted"


def balance(counts: Iterable[tuple[str, str, int]]) -> Ledger:
    """Return the ledger of (fate or `accepted`, drop reason, items) counts."""
    by_fate = dict.fromkeys([ACCEPTED, *Fate], 0)
    dropped: dict[str, int] = {}
    for fate, reason, items in counts:
        if fate == Fate.DROPPED:
            dropped[reason] = dropped.get(reason, 0) + items
        else:
            by_fate[fate] += items
    return Ledger(
        accepted=by_fate[ACCEPTED],
        queued=by_fate[Fate.QUEUED],
        waiting=by_fate[Fate.WAITING],
        leased=by_fate[Fate.LEASED],
        served=by_fate[Fate.SERVED],
        quarantined=by_fate[Fate.QUARANTINED],
        dropped={reason: items for reason, items in sorted(dropped.items()) if items},
    )
