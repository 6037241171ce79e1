"""Mend in the background what a vanished trainer or an ended run leaves behind."""

import logging

from celery import shared_task
from django.utils import timezone
from kombu.exceptions import OperationalError

from buffer import services

logger = logging.getLogger(__name__)


@shared_task(name="buffer.jobs.reclaim_lapsed_leases")
def reclaim_lapsed_leases() -> dict[str, int]:
    """Return lapsed batches to the head of their queues and settle what nobody will train on."""
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
    """Go on to the next segment when the open one is full, and drop those that are due."""
    now = timezone.now()
    number = services.turn_segment(now=now)
    report = services.apply_retention(now=now)
    return {"open": number, "dropped": len(report.dropped), "moved": report.moved_items}


# One archive may take minutes; the next pass finds what was asked for meanwhile.
@shared_task(name="buffer.jobs.work_on_archives", soft_time_limit=3600, time_limit=3660)
def work_on_archives() -> int:
    """Write and restore the archives that were asked for, and let old files go."""
    done = services.work_on_archives(clock=timezone.now)
    services.expire_archives(now=timezone.now())
    return done


def nudge_archives() -> None:
    """Ask for a pass now; one that is lost costs a period of the schedule."""
    try:
        work_on_archives.apply_async(retry=False, expires=30)
    except (OperationalError, OSError) as error:
        logger.warning("archives wait for the next pass: %s", error)


@shared_task(name="buffer.jobs.audit_ledgers")
def audit_ledgers() -> int:
    """Compare the counts of runs that have changed with their rows; return how many are wrong."""
    return services.audit_ledgers(now=timezone.now())


@shared_task(name="buffer.jobs.digest_groups")
def digest_groups() -> int:
    """Say what is in the groups that came in, for lists and searches; return how many."""
    return services.digest_groups(now=timezone.now())
