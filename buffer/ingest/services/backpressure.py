"""Refuse pushes at the limits, before anything is stored.

A refusal names the limit and sets Retry-After; nothing is dropped silently. Counts are read before
a push is stored, so concurrent pushes may exceed a limit by at most their own size.
"""

from django.conf import settings

from buffer.items.rules.states import ItemKind
from runs.lifecycle.models import Run
from web.disk_space import check_disk
from web.rules.errors import Unavailable


class QueueFull(Unavailable):
    """The run is at its limit of items or bytes."""

    code = "over_quota"
    title = "The queue is full"
    retry_after_seconds = 5


def check_room(run: Run, kind: ItemKind, *, items: int, size_bytes: int) -> None:
    """Check that a run may store a push of `kind`.

    Args:
        run: The run.
        kind: Kind of the pushed items.
        items: Open items of this kind that the run holds.
        size_bytes: Bytes of the run's open items of both kinds.

    Raises:
        QueueFull: If the run is at its limit of items or bytes.
        DiskFull: If free disk space is below the minimum.
    """
    most = {
        ItemKind.GROUPS: settings.ROLLDECK_MAX_QUEUED_GROUPS,
        ItemKind.FRAGMENTS: settings.ROLLDECK_MAX_QUEUED_FRAGMENTS,
    }[kind]
    if items >= most:
        raise QueueFull(f"{run.name} holds {items} {kind}, at most {most} allowed")
    if size_bytes >= settings.ROLLDECK_MAX_RUN_BYTES:
        raise QueueFull(
            f"{run.name} holds {size_bytes} bytes, "
            f"at most {settings.ROLLDECK_MAX_RUN_BYTES} allowed"
        )
    check_disk()
