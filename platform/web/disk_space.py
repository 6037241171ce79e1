"""Space on the server's disks that bulk data may not use.

Below ``ROLLDECK_MIN_FREE_DISK_BYTES``, every writer of bulk data is refused: pushes, tensors,
captured calls, weights, recordings and archives. The rest of the disk belongs to the database, its
write-ahead log and the server's logs, so that batches can be served and refusals recorded.
"""

import os
from contextlib import suppress

from django.conf import settings

from web.rules.errors import ApiError


class DiskFull(ApiError):
    """Free disk space is below the required minimum."""

    status = 507
    code = "disk_full"
    title = "The disk is nearly full"
    retry_after_seconds = 60


def check_disk() -> None:
    """Check the free disk space before bulk data is written.

    Raises:
        DiskFull: If it is below the minimum.
    """
    free = free_disk_bytes()
    if free < settings.ROLLDECK_MIN_FREE_DISK_BYTES:
        raise DiskFull(
            f"{free} bytes of disk free, at least {settings.ROLLDECK_MIN_FREE_DISK_BYTES} required"
        )


def free_disk_bytes() -> int:
    """Return the free disk space in bytes of the data and media directories, the smaller one."""
    free = []
    for folder in {str(settings.ROLLDECK_VAR), str(settings.MEDIA_ROOT)}:
        with suppress(FileNotFoundError):
            room = os.statvfs(folder)
            free.append(room.f_bavail * room.f_frsize)
    return min(free)
