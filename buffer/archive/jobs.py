"""Celery job that writes and restores archives."""

import logging

from celery import shared_task
from django.utils import timezone
from kombu.exceptions import OperationalError

from buffer.archive.services import archive_jobs
from buffer.archive.services.archive_jobs import expire_archives

logger = logging.getLogger(__name__)


# One archive may take minutes; jobs queued in the meantime wait for the next run of the task.
@shared_task(name="buffer.jobs.work_on_archives", soft_time_limit=3600, time_limit=3660)
def work_on_archives() -> int:
    """Run queued archive jobs and delete expired archive files."""
    done = archive_jobs.work_on_archives(clock=timezone.now)
    expire_archives(now=timezone.now())
    return done


def nudge_archives() -> None:
    """Trigger `work_on_archives` now; if this fails, the periodic schedule runs it."""
    try:
        work_on_archives.apply_async(retry=False, expires=30)
    except (OperationalError, OSError) as error:
        logger.warning("cannot trigger the archive task, waiting for its schedule: %s", error)
