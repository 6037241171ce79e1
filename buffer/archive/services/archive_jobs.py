"""Background jobs that export and restore archives.

Rows are the job queue; one process at a time works, under an advisory lock. If that process dies,
its job is still `working` while the lock is free, and is run again: an export rewrites its file, a
restoration continues where it stopped.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

import msgspec
from django.conf import settings
from django.db import transaction

from buffer.archive.models import ArchiveJob, ArchiveState, ArchiveVerb
from buffer.archive.rules import Window
from buffer.archive.services.export import ExportReport, export_run
from buffer.archive.services.restore import RestoreReport, restore_archive
from runs.events.services import record_event
from runs.lifecycle.models import Run
from web.disk_space import check_disk
from web.rules.errors import Conflict, NotFound, TooManyRequests
from web.sql import one_process

MAX_OPEN: Final = 100
_OPEN: Final = (ArchiveState.QUEUED, ArchiveState.WORKING)
_log = logging.getLogger(__name__)


class ArchiveNotFound(NotFound):
    """The run has no such archive."""


class ArchiveNotReady(Conflict):
    """The archive has no file: it is pending, failed or expired."""

    code = "archive_not_ready"
    title = "No file yet"


class TooManyArchives(TooManyRequests):
    """Too many archive jobs are pending."""

    title = "Too many archives wait"
    retry_after_seconds = 60


def request_archive(*, run: Run, window: Window, asked_by: str, now: datetime) -> ArchiveJob:
    """Queue the export of a run.

    Raises:
        TooManyArchives: If too many wait already.
        DiskFull: If free disk space is below the minimum.
    """
    return _queue_job(run, ArchiveVerb.EXPORT, None, window, asked_by=asked_by, now=now)


@transaction.atomic
def request_restoration(
    *, run: Run, archive_id: int, window: Window, asked_by: str, now: datetime
) -> ArchiveJob:
    """Queue the restoration of an archive into a run.

    Raises:
        ArchiveNotFound: If the archive does not exist.
        ArchiveNotReady: If it has no file.
        TooManyArchives: If 100 jobs are pending.
        DiskFull: If free disk space is below the minimum.
    """
    exports = ArchiveJob.objects.filter(pk=archive_id, verb=ArchiveVerb.EXPORT)
    # Locked: its file must not expire before the new row is committed.
    found = exports.select_for_update().first()
    if found is None:
        raise ArchiveNotFound(f"archive {archive_id} does not exist")
    archive_file(found)
    return _queue_job(run, ArchiveVerb.RESTORE, found, window, asked_by=asked_by, now=now)


def _queue_job(
    run: Run,
    verb: ArchiveVerb,
    source: ArchiveJob | None,
    window: Window,
    *,
    asked_by: str,
    now: datetime,
) -> ArchiveJob:
    check_disk()
    if ArchiveJob.objects.filter(state__in=_OPEN).count() >= MAX_OPEN:
        raise TooManyArchives(f"{MAX_OPEN} archive jobs are pending: try again later")
    return ArchiveJob.objects.create(
        run=run,
        verb=verb,
        source=source,
        state=ArchiveState.QUEUED,
        window=msgspec.to_builtins(asdict(window)),
        asked_by=asked_by,
        created_at=now,
    )


def archive_job(*, run_id: int, job_id: int) -> ArchiveJob:
    """Return an archive job.

    Raises:
        ArchiveNotFound: If the run has no such job.
    """
    found = ArchiveJob.objects.filter(run_id=run_id, pk=job_id).first()
    if found is None:
        raise ArchiveNotFound(f"the run has no archive {job_id}")
    return found


def archive_file(job: ArchiveJob) -> Path:
    """Return the file of an archive.

    Raises:
        ArchiveNotReady: If it has no file.
    """
    path = _path(job)
    if job.verb != ArchiveVerb.EXPORT or job.state != ArchiveState.DONE or not path.is_file():
        raise ArchiveNotReady(f"archive {job.pk} is {job.state} and has no file")
    return path


def delete_archive(*, run_id: int, job_id: int, actor: str, now: datetime) -> ArchiveJob:
    """Delete the file of an archive; its row is kept as expired.

    Raises:
        ArchiveNotFound: If the run has no such archive.
        ArchiveNotReady: If it has no file, or is being restored.
    """
    job = archive_job(run_id=run_id, job_id=job_id)
    archive_file(job)
    if not _expire(job, actor=actor, now=now):
        raise ArchiveNotReady(f"archive {job.pk} is being restored")
    job.refresh_from_db(fields=["state"])
    return job


def expire_archives(*, now: datetime) -> int:
    """Delete archive files older than ROLLDECK_ARCHIVE_SECONDS; return the number deleted."""
    seconds = settings.ROLLDECK_ARCHIVE_SECONDS
    if not seconds:
        return 0
    old = ArchiveJob.objects.filter(
        verb=ArchiveVerb.EXPORT,
        state=ArchiveState.DONE,
        finished_at__lt=now - timedelta(seconds=seconds),
    )
    return sum(_expire(job, actor="retention", now=now) for job in old)


@transaction.atomic
def _expire(job: ArchiveJob, *, actor: str, now: datetime) -> bool:
    """Delete an archive's file unless a restoration needs it; return whether it was deleted."""
    ArchiveJob.objects.select_for_update().get(pk=job.pk)
    if ArchiveJob.objects.filter(source=job, state__in=_OPEN).exists():
        return False
    ArchiveJob.objects.filter(pk=job.pk).update(state=ArchiveState.EXPIRED)
    record_event(
        run_id=job.run_id,
        kind="archive_expired",
        message=f"the file of archive {job.pk} was deleted",
        actor=actor,
        details={"archive": job.pk},
        now=now,
    )
    # Before the commit: if the file cannot be deleted, the row stays unchanged.
    _path(job).unlink(missing_ok=True)
    return True


def _path(job: ArchiveJob) -> Path:
    return _path_of(job.pk)


def _path_of(job_id: int) -> Path:
    return Path(settings.ROLLDECK_VAR) / "archives" / f"{job_id}.parquet"


def remove_archives(_run_id: int, job_ids: Sequence[int]) -> int:
    """Remove the files of archive jobs of a deleted run; return their size in bytes."""
    return sum(_removed(_path_of(job_id)) for job_id in job_ids)


def _removed(path: Path) -> int:
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        return 0
    path.unlink(missing_ok=True)
    return size


def archived_bytes(run_id: int) -> int:
    """Return the size of the archive files of a run."""
    jobs = ArchiveJob.objects.filter(
        run_id=run_id, verb=ArchiveVerb.EXPORT, state=ArchiveState.DONE
    )
    paths = [_path(job) for job in jobs]
    return sum(path.stat().st_size for path in paths if path.is_file())


def run_archive_jobs(*, clock: Callable[[], datetime]) -> int:
    """Run all pending jobs in order; return the number of jobs run."""
    done = 0
    with one_process("rolldeck.archives") as is_exclusive:
        while is_exclusive:
            job = ArchiveJob.objects.filter(state__in=_OPEN).order_by("id").first()
            if job is None:
                break
            ArchiveJob.objects.filter(pk=job.pk).update(state=ArchiveState.WORKING)
            changed: dict[str, Any]
            try:
                changed = {
                    "state": ArchiveState.DONE,
                    "report": asdict(_report_of(job, now=clock())),
                }
            except Exception as error:  # noqa: BLE001 stored in the row of the job
                _log.exception("%s failed", job)
                changed = {"state": ArchiveState.FAILED, "error": str(error)[:2000]}
            done += 1
            if not ArchiveJob.objects.filter(pk=job.pk).update(finished_at=clock(), **changed):
                _path(job).unlink(missing_ok=True)  # its run was deleted meanwhile
                continue
            record_event(
                run_id=job.run_id,
                kind=f"archive_{job.verb}_{changed['state']}",
                level="info" if changed["state"] == ArchiveState.DONE else "error",
                message=f"{job.verb} {job.pk} is {changed['state']}",
                reason=changed.get("error", ""),
                actor=job.asked_by,
                details={"archive": job.pk},
                now=clock(),
            )
    return done


def _report_of(job: ArchiveJob, *, now: datetime) -> ExportReport | RestoreReport:
    """Export or restore, and return the report; it is also stored after each row group."""

    def show(report: ExportReport | RestoreReport) -> None:
        ArchiveJob.objects.filter(pk=job.pk).update(report=asdict(report))

    window = msgspec.convert(job.window, Window)
    if job.verb == ArchiveVerb.EXPORT:
        path = _path(job)
        path.parent.mkdir(parents=True, exist_ok=True)
        return export_run(run=job.run, window=window, path=path, now=now, on_progress=show)
    if job.source is None:
        raise ArchiveNotFound("the archive to restore no longer exists")
    return restore_archive(
        path=archive_file(job.source),
        run_name=job.run.name,
        window=window,
        actor=job.asked_by,
        now=now,
        on_progress=show,
    )
