"""Comparison of a run's ledger with its rows."""

from buffer.items.queries import ledger, true_ledger
from buffer.items.rules.states import ItemKind


def miscounts(run_id: int) -> list[str]:
    """Return the differences between a run's counts and rows; empty if there are none."""
    return [
        f"{kind}: counted {counted}, found {found}"
        for kind in ItemKind
        if (counted := ledger(run_id, kind)) != (found := true_ledger(run_id, kind))
        or not counted.balanced
    ]
