"""Ledger of a run: balances accepted items against items by state.

accepted = queued + waiting + leased + served + quarantined + Σ dropped(reason), at any moment.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from buffer.items.rules.states import ItemState


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """Items of one kind in one run, by state."""

    accepted: int = 0
    queued: int = 0
    waiting: int = 0
    leased: int = 0
    served: int = 0
    quarantined: int = 0
    dropped: dict[str, int] = field(default_factory=dict)

    @property
    def balanced(self) -> bool:
        """Whether every accepted item is in exactly one state."""
        placed = self.queued + self.waiting + self.leased + self.served + self.quarantined
        return self.accepted == placed + sum(self.dropped.values())


ACCEPTED: Final = "accepted"
# Counts that are no state, so no part of the balance.
TRUNCATED: Final = "truncated"
"""Groups accepted with truncated sequences."""
FAILED: Final = "failed"
"""Rollouts that failed or have no score, by kind; they were never accepted."""
REFILLED: Final = "refilled"
"""Rollouts that took the place of failed ones."""
LOST: Final = "lost"
"""Complete rollouts of groups that were dropped because others failed."""
LOSSES: Final = frozenset({FAILED, REFILLED, LOST})


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutLosses:
    """Rollouts of groups that were short."""

    failed: dict[str, int] = field(default_factory=dict)
    """Failed or unscored rollouts by kind."""
    refilled: int = 0
    lost_siblings: int = 0
    """Complete rollouts of dropped groups."""

    def __bool__(self) -> bool:
        return bool(self.failed or self.refilled or self.lost_siblings)


def balance(counts: Iterable[tuple[str, str, int]]) -> Ledger:
    """Return the ledger of (state or another count, drop reason, items)."""
    by_state = dict.fromkeys([ACCEPTED, *ItemState], 0)
    dropped: dict[str, int] = {}
    for state, reason, items in counts:
        if state == ItemState.DROPPED:
            dropped[reason] = dropped.get(reason, 0) + items
        elif state in by_state:
            by_state[state] += items
    return Ledger(
        accepted=by_state[ACCEPTED],
        queued=by_state[ItemState.QUEUED],
        waiting=by_state[ItemState.WAITING],
        leased=by_state[ItemState.LEASED],
        served=by_state[ItemState.SERVED],
        quarantined=by_state[ItemState.QUARANTINED],
        dropped={reason: items for reason, items in sorted(dropped.items()) if items},
    )


def discrepancies(*, counted: Ledger, found: Ledger) -> list[str]:
    """Describe how a counted ledger differs from the rows or does not balance.

    Args:
        counted: Ledger from the counters that every change updates.
        found: Ledger from the rows.
    """
    wrong = []
    if not counted.balanced:
        wrong.append("the counts by state do not sum to the accepted items")
    ours, theirs = _positions(counted), _positions(found)
    for place in sorted(ours.keys() | theirs.keys()):
        count, rows = ours.get(place, 0), theirs.get(place, 0)
        if count != rows:
            wrong.append(f"{place}: {count} counted, {rows} rows found")
    return wrong


def _positions(ledger: Ledger) -> dict[str, int]:
    plain = {ACCEPTED: ledger.accepted}
    for state in ItemState:
        if state is not ItemState.DROPPED:
            plain[str(state)] = getattr(ledger, state)
    return plain | {f"dropped ({reason})": count for reason, count in ledger.dropped.items()}
