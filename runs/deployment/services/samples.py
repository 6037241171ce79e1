"""Measure the size of the deployment."""

import shutil
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from django.core.files.storage import storages
from django.db import connection, transaction

from runs.deployment.models.deployment import SizeSample

RETENTION: Final = timedelta(days=14)
_SIZES: Final = """
    SELECT pg_database_size(current_database()),
        CASE WHEN pg_is_in_recovery() THEN NULL ELSE pg_current_wal_lsn() - '0/0'::pg_lsn END"""


@transaction.atomic
def record_size_sample(*, now: datetime) -> None:
    """Store the sizes of the database and its log and the free space; delete old samples."""
    with connection.cursor() as cursor:
        cursor.execute(_SIZES)
        database_bytes, wal_bytes = cursor.fetchone()
    free, total = _room()
    SizeSample.objects.get_or_create(
        at=now,
        defaults={
            "database_bytes": database_bytes,
            "wal_bytes": None if wal_bytes is None else int(wal_bytes),
            "disk_free_bytes": free,
            "disk_total_bytes": total,
        },
    )
    SizeSample.objects.filter(at__lt=now - RETENTION).delete()


def _room() -> tuple[int | None, int | None]:
    """Return free and total bytes of the payload disk; None for a bucket."""
    storage: Any = storages["payloads"]
    if hasattr(storage, "bucket_name"):
        return None, None
    path = Path(str(storage.location))
    folder = next((each for each in (path, *path.parents) if each.is_dir()), None)
    if folder is None:
        return None, None
    room = shutil.disk_usage(folder)
    return room.free, room.total
