"""Celery tasks of the buffer: leases, expiry, segments, archives, audits and digests."""

from celery import shared_task
from django.utils import timezone

from buffer.archive.jobs import run_archive_jobs
from buffer.batches.services.expiry import drop_expired, drop_other_epochs, settle_ended_runs
from buffer.batches.services.lease_expiry import (
    acknowledge_final_batches,
    quarantine_repeated_expiries,
    return_expired_batches,
)
from buffer.capture.services import delete_old_captures
from buffer.ingest.services.idempotency import delete_old_keys, delete_old_pushes
from buffer.inspect import services as inspection
from buffer.items import services as items
from buffer.payloads.services.partitions import rotate_segment
from buffer.payloads.services.retention import apply_retention
from buffer.tensors.services import remove_unused_objects
from buffer.tokenizers.services import remove_unused_tokenizers

__all__ = [
    "audit_ledgers",
    "digest_groups",
    "reclaim_expired_leases",
    "rotate_segments",
    "run_archive_jobs",
]


@shared_task(name="buffer.jobs.reclaim_expired_leases")
def reclaim_expired_leases() -> dict[str, int]:
    """Return expired leases to their queues, and drop items that will not be trained on."""
    now = timezone.now()
    return {
        # First: a returned batch would be served again.
        "acknowledged": acknowledge_final_batches(),
        "returned": return_expired_batches(),
        "quarantined": quarantine_repeated_expiries(now=now),
        "dropped": settle_ended_runs(now=now) + drop_other_epochs() + drop_expired(),
        "forgotten": delete_old_keys(now=now)
        + delete_old_pushes(now=now)
        + delete_old_captures(now=now)
        + remove_unused_objects(now=now)
        + remove_unused_tokenizers(),
    }


@shared_task(name="buffer.jobs.rotate_segments")
def rotate_segments() -> dict[str, int]:
    """Seal the open segment when it is full, and drop segments past retention."""
    now = timezone.now()
    number = rotate_segment(now=now)
    report = apply_retention(now=now)
    return {"open": number, "dropped": len(report.dropped), "moved": report.moved_items}


@shared_task(name="buffer.jobs.audit_ledgers")
def audit_ledgers() -> int:
    """Compare the counts of changed runs with their rows; return the number of mismatches."""
    return items.audit_ledgers(now=timezone.now())


@shared_task(name="buffer.jobs.digest_groups")
def digest_groups() -> int:
    """Digest new groups for lists and searches; return the number digested."""
    return inspection.digest_groups(now=timezone.now())
