"""Read the growth of the deployment and the notice to all users."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any, Final

from runs.deployment.models.deployment import ServerNotice, SizeSample
from runs.deployment.schemas.deployment import DiskForecast, Growth, Notice
from runs.lifecycle.rules.forecast import forecast

LOOKED_BACK: Final = timedelta(hours=6)
SHOWN: Final = 60
Series = list[tuple[float, float]]


def notice(*, now: datetime) -> Notice | None:
    """Return the current notice, or None."""
    found = ServerNotice.objects.first()
    if found is None or (found.until is not None and found.until <= now):
        return None
    return Notice(**{name: getattr(found, name) for name in Notice.__struct_fields__})


def growth(*, keep_free_bytes: int, now: datetime) -> Growth:
    """Return the recent growth of the deployment, and the forecast of its disk.

    Args:
        keep_free_bytes: Free space below which pushes are refused.
        now: Present time.
    """
    found = SizeSample.objects.filter(at__gt=now - LOOKED_BACK, at__lte=now).order_by("at")
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
        database_bytes=_downsampled(database),
        disk_free_bytes=_downsampled(free),
    )


def _series(rows: Sequence[tuple[Any, ...]], column: int) -> Series:
    """Return one column over its time in seconds, without missing values."""
    return [(row[0].timestamp(), float(row[column])) for row in rows if row[column] is not None]


def _downsampled(series: Series) -> list[int]:
    step = max(1, -(-len(series) // SHOWN))
    # Counted from the end, so that the newest value is included.
    return [int(amount) for _, amount in series[::-1][::step]][::-1]
