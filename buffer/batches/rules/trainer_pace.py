"""Share of a trainer's time spent waiting for data, and the window in which it is measured."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

SHORTEST_SECONDS: Final = 60.0
LONGEST_SECONDS: Final = 600.0


def window_seconds(leases: Iterable[tuple[int | None, float]], *, now: float) -> float:
    """Return the length of the window in which a run's trainers are measured, in seconds.

    A minute, or two cycles of a slower trainer. A shorter window would see such a trainer now
    busy, now idle. A trainer that missed two cycles no longer counts.

    Args:
        leases: Trainer and start time, in seconds, of each of the newest leases.
        now: Present time.
    """
    starts = defaultdict[int | None, list[float]](list)
    for trainer, at in leases:
        starts[trainer].append(at)
    longest = SHORTEST_SECONDS
    for times in starts.values():
        if len(times) < 2:
            continue
        before, last = sorted(times)[-2:]
        cycles = min(LONGEST_SECONDS, 2 * (last - before))
        if now - last <= cycles:
            longest = max(longest, cycles)
    return longest


def waiting_share(
    held: Iterable[tuple[float, float]], *, since: float, until: float
) -> float | None:
    """Return the fraction of the time, 0 to 1, in which a trainer held no batch.

    Args:
        held: Start and end of each of its leases, in seconds; leases may overlap, because a
            trainer may fetch the next batch while it trains.
        since: Beginning of the period.
        until: End of the period.

    Returns:
        The fraction, or None if the period is empty.
    """
    if until <= since:
        return None
    busy, reached = 0.0, since
    for began, ended in sorted(held):
        began, ended = max(began, reached), min(ended, until)
        if ended > began:
            busy += ended - began
            reached = ended
    return 1.0 - busy / (until - since)


def mean_versions(staleness: Iterable[Mapping[str, int]]) -> float | None:
    """Return the mean staleness of items in versions; None if unknown.

    Args:
        staleness: Items by versions behind, for each batch; keys that are not numbers are
            ignored.
    """
    items = [
        (int(behind), count)
        for one in staleness
        for behind, count in one.items()
        if behind.lstrip("-").isdigit()
    ]
    total = sum(count for _, count in items)
    return sum(behind * count for behind, count in items) / total if total else None
