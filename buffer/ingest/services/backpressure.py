"""Refuse what does not fit, before anything of it is stored.

A refusal names the limit and says when to come back; nothing is dropped in silence. The counts
are read before a push is stored, so pushes that arrive together may pass a limit by what each of
them carries, and by no more.
"""

import os
from contextlib import suppress

from django.conf import settings

from buffer.items.rules.states import ItemKind
from runs.models import Run


class QueueFull(Exception):
    """The run holds as many items, or bytes of them, as this deck allows."""

    retry_after_seconds = 5


class DiskFull(Exception):
    """The disk has less room left than this deck keeps free."""

    retry_after_seconds = 60


def check_room(run: Run, kind: ItemKind, *, items: int, size_bytes: int) -> None:
    """Accept that a push of `kind` is stored for the run.

    Args:
        run: The run.
        kind: What is pushed.
        items: Open items of this kind that the run holds.
        size_bytes: Bytes of the run's open items of both kinds.

    Raises:
        QueueFull: If the run holds as many items, or bytes, as it may.
        DiskFull: If the disk is nearly full.
    """
    most = {
        ItemKind.GROUPS: settings.ROLLDECK_MAX_QUEUED_GROUPS,
        ItemKind.FRAGMENTS: settings.ROLLDECK_MAX_QUEUED_FRAGMENTS,
    }[kind]
    if items >= most:
        raise QueueFull(f"{run.name} holds {items} {kind}, which is as many as it may")
    if size_bytes >= settings.ROLLDECK_MAX_RUN_BYTES:
        raise QueueFull(f"{run.name} holds {size_bytes} bytes, which is as many as it may")
    free = free_disk_bytes()
    if free < settings.ROLLDECK_MIN_FREE_DISK_BYTES:
        raise DiskFull(f"{free} bytes of disk are free, and that many are kept free")


def free_disk_bytes() -> int:
    """Return how much room is left where the deck keeps its data and its files."""
    free = []
    for folder in {str(settings.ROLLDECK_VAR), str(settings.MEDIA_ROOT)}:
        with suppress(FileNotFoundError):
            room = os.statvfs(folder)
            free.append(room.f_bavail * room.f_frsize)
    return min(free)
