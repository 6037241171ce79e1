"""Read how the deck grows, and what everybody is told."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any, Final

from runs.core.forecast import forecast
from runs.models import DeckNotice, DeckSample
from runs.wire.deck import DiskForecast, Growth, Notice

LOOKED_BACK: Final = timedelta(hours=6)
SHOWN: Final = 60
Series = list[tuple[float, float]]


def notice(*, now: datetime) -> Notice | None:
    """Return what everybody is told now."""
    found = DeckNotice.objects.first()
    if found is None or (found.until is not None and found.until <= now):
        return None
    return Notice(**{name: getattr(found, name) for name in Notice.__struct_fields__})


def growth(*, keep_free_bytes: int, now: datetime) -> Growth:
    """Return how the deck grew lately, and when its disk is full at that rate.

    Args:
        keep_free_bytes: Below this much room pushes are refused.
        now: The present.
    """
    found = DeckSample.objects.filter(at__gt=now - LOOKED_BACK, at__lte=now).order_by("at")
    rows = list(found.values_list("at", "database_bytes", "wal_bytes", "disk_free_bytes"))
    database, wal, free = (_series(rows, column) for column in (1, 2, 3))
    disk = asdict(forecast(free, floor=keep_free_bytes))
    left = disk["seconds_left"]
    return Growth(
        since=rows[0][0] if rows else None,
        samples=len(rows),
        database_bytes_per_hour=forecast(database, floor=-1).per_hour,
        wal_bytes_per_hour=forecast(wal, floor=-1).per_hour,
        disk=DiskForecast(**disk, at=None if not left else now + timedelta(seconds=left)),
        database_bytes=_thinned(database),
        disk_free_bytes=_thinned(free),
    )


def _series(rows: Sequence[tuple[Any, ...]], column: int) -> Series:
    """Return one column over the seconds of the first, where it was measured."""
    return [(row[0].timestamp(), float(row[column])) for row in rows if row[column] is not None]


def _thinned(series: Series) -> list[int]:
    step = max(1, -(-len(series) // SHOWN))
    # The newest one is always among them.
    return [int(amount) for _, amount in series[::-1][::step]][::-1]
