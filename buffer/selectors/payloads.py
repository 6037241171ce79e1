"""Payload segments and archive jobs."""

from buffer.models import ArchiveJob, Segment
from buffer.models.archives import ArchiveVerb


def segments(*, limit: int) -> list[Segment]:
    """Return the payload segments, newest first."""
    return list(Segment.objects.order_by("-number")[:limit])


def archive_jobs(*, run_id: int, limit: int) -> list[ArchiveJob]:
    """Return the archive jobs of a run, newest first."""
    return list(ArchiveJob.objects.filter(run_id=run_id).order_by("-id")[:limit])


def run_of_archive(archive_id: int) -> str | None:
    """Return the name of the run from which an archive was exported, or None."""
    found = ArchiveJob.objects.filter(pk=archive_id, verb=ArchiveVerb.EXPORT)
    return found.values_list("run__name", flat=True).first()
