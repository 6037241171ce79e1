"""Read archive jobs."""

from buffer.archive.models import ArchiveJob, ArchiveVerb


def archive_jobs(*, run_id: int, limit: int) -> list[ArchiveJob]:
    """Return the archive jobs of a run, newest first."""
    return list(ArchiveJob.objects.filter(run_id=run_id).order_by("-id")[:limit])


def run_of_archive(archive_id: int) -> str | None:
    """Return the name of the run from which an archive was exported, or None."""
    found = ArchiveJob.objects.filter(pk=archive_id, verb=ArchiveVerb.EXPORT)
    return found.values_list("run__name", flat=True).first()
