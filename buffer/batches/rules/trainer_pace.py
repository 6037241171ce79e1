"""Share of a trainer's time spent waiting for data."""

from collections.abc import Iterable, Mapping


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
