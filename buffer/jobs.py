"""Celery tasks of the buffer: leases, expiry, segments, archives, audits and digests."""

import logging

from celery import shared_task
from django.utils import timezone
from kombu.exceptions import OperationalError

from buffer import services

logger = logging.getLogger(__name__)


@shared_task(name="buffer.jobs.reclaim_lapsed_leases")
def reclaim_lapsed_leases() -> dict[str, int]:
    """Return expired leases to their queues, and drop items that will not be trained on."""
    now = timezone.now()
    return {
        "returned": services.return_lapsed_batches(),
        "quarantined": services.quarantine_poison(now=now),
        "dropped": services.settle_ended_runs(now=now)
        + services.drop_other_epochs()
        + services.drop_expired(),
        "forgotten": services.forget_old_keys(now=now)
        + services.forget_old_pushes(now=now)
        + services.forget_captures(now=now),
    }


@shared_task(name="buffer.jobs.turn_segments")
def turn_segments() -> dict[str, int]:
    """Seal the open segment when it is full, and drop segments past retention."""
    now = timezone.now()
    number = services.turn_segment(now=now)
    report = services.apply_retention(now=now)
    return {"open": number, "dropped": len(report.dropped), "moved": report.moved_items}


# One archive may take minutes; jobs queued in the meantime wait for the next run of the task.
@shared_task(name="buffer.jobs.work_on_archives", soft_time_limit=3600, time_limit=3660)
def work_on_archives() -> int:
    """Run queued archive jobs and delete expired archive files."""
    done = services.work_on_archives(clock=timezone.now)
    services.expire_archives(now=timezone.now())
    return done


def nudge_archives() -> None:
    """Trigger `work_on_archives` now; if this fails, the periodic schedule runs it."""
    try:
        work_on_archives.apply_async(retry=False, expires=30)
    except (OperationalError, OSError) as error:
        logger.warning("cannot trigger the archive task, waiting for its schedule: %s", error)


@shared_task(name="buffer.jobs.audit_ledgers")
def audit_ledgers() -> int:
    """Compare the counts of changed runs with their rows; return the number of mismatches."""
    return services.audit_ledgers(now=timezone.now())


@shared_task(name="buffer.jobs.digest_groups")
def digest_groups() -> int:
    """Digest new groups for lists and searches; return the number digested."""
    return services.digest_groups(now=timezone.now())
