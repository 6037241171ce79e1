"""Groups that were accepted and dropped at once, which nothing but a count shows."""

from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from django.db import connection

from buffer.items.rules.states import DropReason
from runs.lifecycle.rules.lifecycle import ACTIVE
from web.sql import statements_of

SQL: Final = statements_of("buffer")

RECENT: Final = timedelta(minutes=10)
NEWEST: Final = 200
"""Newest groups of a run of which the share is taken."""
FEWEST: Final = 20
"""Minimum number of dropped groups."""
SHARE: Final = 0.2
ALL: Final = 0.95
"""Share from which dropped groups without variance are reported; smaller ones are normal."""
RUNS_AT_MOST: Final = 100
CAUSES: Final[dict[str, str]] = {
    DropReason.FUTURE: "they name a policy version that is later than the run's",
    DropReason.STALE_EPOCH: "they were sampled with weights of an earlier trainer session or run",
    DropReason.OVERLONG: "they contain a sequence longer than `max_token_len`",
    DropReason.ZERO_VARIANCE: "all scores of each group are equal",
}
REMEDIES: Final[dict[str, str]] = {
    DropReason.FUTURE: "Push `epoch` and `policy_step` as the inference server reports them, and "
    "only versions that this run's trainer has published.",
    DropReason.STALE_EPOCH: "Load the run's present weights into the inference server.",
    DropReason.OVERLONG: "Sample shorter answers, or set `overlong_sequences` to `truncate` or "
    "`keep`.",
    DropReason.ZERO_VARIANCE: "Choose other problems or a finer reward, or turn "
    "`drop_zero_variance` off.",
}


class ArrivalDrops(NamedTuple):
    """Groups of a run that were dropped when they arrived."""

    run_id: int
    run: str
    reason: str
    dropped: int
    groups: int
    """Newest groups, of which `dropped` were dropped for the reason."""

    @property
    def words(self) -> str:
        """Number, reason and its meaning."""
        return (
            f"{self.dropped:,} of the newest {self.groups:,} groups were dropped on arrival as "
            f"`{self.reason}`: {CAUSES[self.reason]}"
        )

    @property
    def remedy(self) -> str:
        """Change that prevents the drops."""
        return REMEDIES[self.reason]


def arrival_drops(*, now: datetime, run_id: int | None = None) -> list[ArrivalDrops]:
    """Return the active runs that drop many of their newest groups on arrival.

    Args:
        now: Present time.
        run_id: The run; None for all.
    """
    params: dict[str, Any] = {
        "since": now - RECENT,
        "newest": NEWEST,
        "active": sorted(ACTIVE),
        "run": run_id,
        "reasons": [str(reason) for reason in CAUSES],
        "most": RUNS_AT_MOST,
    }
    with connection.cursor() as cursor:
        cursor.execute(SQL["arrival_drops"], params)
        found = [ArrivalDrops(*row) for row in cursor.fetchall()]
    return [one for one in found if one.dropped >= FEWEST and _is_much(one)]


def _is_much(one: ArrivalDrops) -> bool:
    least = ALL if one.reason == DropReason.ZERO_VARIANCE else SHARE
    return one.dropped / one.groups > least
