"""Captured sessions of a run."""

from buffer.capture.models import CaptureSession
from web.rules.errors import NotFound


class CaptureNotFound(NotFound):
    """The run has no captured session with this name."""

    def __init__(self, name: str, *, field: str = "session") -> None:
        super().__init__(f"captured session {name!r} does not exist")
        self.field = field


def captures(run_id: int, *, limit: int) -> list[CaptureSession]:
    """Return a run's sessions, most recently changed first."""
    return list(CaptureSession.objects.filter(run_id=run_id).order_by("-changed_at")[:limit])


def capture_named(run_id: int, name: str) -> CaptureSession:
    """Return the session with this name.

    Raises:
        CaptureNotFound: If it does not exist.
    """
    found = CaptureSession.objects.filter(run_id=run_id, name=name).first()
    if found is None:
        raise CaptureNotFound(name)
    return found
