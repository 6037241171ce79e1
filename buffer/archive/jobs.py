"""Celery job that writes and restores archives."""

import logging

from celery import shared_task
from django.utils import timezone
from kombu.exceptions import OperationalError

from buffer.archive.services import archive_jobs
from buffer.archive.services.archive_jobs import expire_archives

logger = logging.getLogger(__name__)


# One archive may take minutes; the next pass finds what was asked for meanwhile.
@shared_task(name="buffer.jobs.work_on_archives", soft_time_limit=3600, time_limit=3660)
def work_on_archives() -> int:
    """Write and restore the archives that were asked for, and let old files go."""
    done = archive_jobs.work_on_archives(clock=timezone.now)
    expire_archives(now=timezone.now())
    return done


def nudge_archives() -> None:
    """Ask for a pass now; one that is lost costs a period of the schedule."""
    try:
        work_on_archives.apply_async(retry=False, expires=30)
    except (OperationalError, OSError) as error:
        logger.warning("archives wait for the next pass: %s", error)
