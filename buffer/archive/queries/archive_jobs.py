"""Read archive jobs."""

from buffer.archive.models import ArchiveJob, ArchiveVerb


def archive_jobs(*, run_id: int, before: int | None, limit: int) -> list[ArchiveJob]:
    """Return the archive jobs of a run, newest first, older than the job `before`."""
    found = ArchiveJob.objects.filter(run_id=run_id)
    if before is not None:
        found = found.filter(id__lt=before)
    return list(found.order_by("-id")[:limit])


def run_of_archive(archive_id: int) -> str | None:
    """Return the name of the run from which an archive was exported, or None."""
    found = ArchiveJob.objects.filter(pk=archive_id, verb=ArchiveVerb.EXPORT)
    return found.values_list("run__name", flat=True).first()
