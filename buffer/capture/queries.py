"""Read the sessions whose calls a proxy captured."""

from buffer.capture.models import CaptureSession


class CaptureNotFound(Exception):
    """The run has no captured session of this name."""

    def __init__(self, name: str, *, field: str = "session") -> None:
        super().__init__(f"there is no captured session {name!r}")
        self.field = field


def captures(run_id: int, *, limit: int) -> list[CaptureSession]:
    """Return a run's sessions, the last changed first."""
    return list(CaptureSession.objects.filter(run_id=run_id).order_by("-changed_at")[:limit])


def capture_named(run_id: int, name: str) -> CaptureSession:
    """Return a session.

    Raises:
        CaptureNotFound: If the run has none of this name.
    """
    found = CaptureSession.objects.filter(run_id=run_id, name=name).first()
    if found is None:
        raise CaptureNotFound(name)
    return found
