"""Reckon how a trainer's time is shared between training and waiting for data."""

from collections.abc import Iterable, Mapping


def waiting_share(
    held: Iterable[tuple[float, float]], *, since: float, until: float
) -> float | None:
    """Return the part of the time, 0 to 1, in which a trainer had no batch to train on.

    Args:
        held: From when until when it had each of its batches, in seconds; they may overlap, for a
            trainer may fetch the next one while it trains.
        since: Beginning of the time that is judged.
        until: Its end.

    Returns:
        None if there is no such time.
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
    """Return how many versions behind items were on average; None if nobody knows.

    Args:
        staleness: Of each batch, items by versions behind; other keys than numbers count for
            nothing.
    """
    items = [
        (int(behind), count)
        for one in staleness
        for behind, count in one.items()
        if behind.lstrip("-").isdigit()
    ]
    total = sum(count for _, count in items)
    return sum(behind * count for behind, count in items) / total if total else None
