"""Celery job that writes and restores archives."""

import logging

from celery import shared_task
from django.utils import timezone
from kombu.exceptions import OperationalError

from buffer.archive.services import archive_jobs
from buffer.archive.services.archive_jobs import expire_archives

logger = logging.getLogger(__name__)


# One archive may take minutes; jobs queued in the meantime wait for the next run of the task.
@shared_task(name="buffer.jobs.run_archive_jobs", soft_time_limit=3600, time_limit=3660)
def run_archive_jobs() -> int:
    """Run queued archive jobs and delete expired archive files."""
    done = archive_jobs.run_archive_jobs(clock=timezone.now)
    expire_archives(now=timezone.now())
    return done


def start_archive_jobs() -> None:
    """Trigger `run_archive_jobs` now; if this fails, the periodic schedule runs it."""
    try:
        run_archive_jobs.apply_async(retry=False, expires=30)
    except (OperationalError, OSError) as error:
        logger.warning("archive task not triggered, waiting for its schedule: %s", error)
