"""Captured sessions of a run."""

from datetime import datetime

from django.db.models import Q

from buffer.capture.models import CaptureSession
from web.rules.errors import NotFound


class CaptureNotFound(NotFound):
    """The run has no captured session with this name."""

    def __init__(self, name: str, *, field: str = "session") -> None:
        super().__init__(f"captured session {name!r} does not exist")
        self.field = field


def captures(
    run_id: int, *, after: tuple[datetime, int] | None, limit: int
) -> list[CaptureSession]:
    """Return a run's sessions, most recently changed first.

    Args:
        run_id: Id of the run.
        after: Time of the last change, and id, of the last session of the previous page.
        limit: Maximum number of sessions.
    """
    found = CaptureSession.objects.filter(run_id=run_id)
    if after is not None:
        changed_at, pk = after
        found = found.filter(Q(changed_at__lt=changed_at) | Q(changed_at=changed_at, pk__lt=pk))
    return list(found.order_by("-changed_at", "-pk")[:limit])


def capture_named(run_id: int, name: str) -> CaptureSession:
    """Return the session with this name.

    Raises:
        CaptureNotFound: If it does not exist.
    """
    found = CaptureSession.objects.filter(run_id=run_id, name=name).first()
    if found is None:
        raise CaptureNotFound(name)
    return found
