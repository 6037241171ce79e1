"""Mend in the background what a vanished trainer or an ended run leaves behind."""

import logging

from celery import shared_task
from django.utils import timezone
from kombu.exceptions import OperationalError

from buffer.archive.services import archive_jobs
from buffer.archive.services.archive_jobs import expire_archives
from buffer.batches.services.lease_expiry import quarantine_poison, return_lapsed_batches
from buffer.capture.services import forget_captures
from buffer.ingest.services.idempotency import forget_old_keys
from buffer.ingest.services.retries import forget_old_pushes
from buffer.inspect.services import digests
from buffer.items.services import audits
from buffer.payloads.services.cleanup import drop_other_epochs, settle_ended_runs
from buffer.payloads.services.expiry import drop_expired
from buffer.payloads.services.retention import apply_retention
from buffer.payloads.services.segments import turn_segment

logger = logging.getLogger(__name__)


@shared_task(name="buffer.jobs.reclaim_lapsed_leases")
def reclaim_lapsed_leases() -> dict[str, int]:
    """Return lapsed batches to the head of their queues and settle what nobody will train on."""
    now = timezone.now()
    return {
        "returned": return_lapsed_batches(),
        "quarantined": quarantine_poison(now=now),
        "dropped": settle_ended_runs(now=now) + drop_other_epochs() + drop_expired(),
        "forgotten": forget_old_keys(now=now)
        + forget_old_pushes(now=now)
        + forget_captures(now=now),
    }


@shared_task(name="buffer.jobs.turn_segments")
def turn_segments() -> dict[str, int]:
    """Go on to the next segment when the open one is full, and drop those that are due."""
    now = timezone.now()
    number = turn_segment(now=now)
    report = apply_retention(now=now)
    return {"open": number, "dropped": len(report.dropped), "moved": report.moved_items}


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


@shared_task(name="buffer.jobs.audit_ledgers")
def audit_ledgers() -> int:
    """Compare the counts of runs that have changed with their rows; return how many are wrong."""
    return audits.audit_ledgers(now=timezone.now())


@shared_task(name="buffer.jobs.digest_groups")
def digest_groups() -> int:
    """Say what is in the groups that came in, for lists and searches; return how many."""
    return digests.digest_groups(now=timezone.now())
