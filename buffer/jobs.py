"""Mend in the background what a vanished trainer or an ended run leaves behind."""

from celery import shared_task
from django.utils import timezone

from buffer import services


@shared_task(name="buffer.jobs.reclaim_lapsed_leases")
def reclaim_lapsed_leases() -> dict[str, int]:
    """Return lapsed batches to the head of their queues and settle what nobody will train on."""
    now = timezone.now()
    return {
        "returned": services.return_lapsed_batches(),
        "dropped": services.settle_ended_runs(now=now)
        + services.drop_other_epochs()
        + services.drop_expired(),
        "forgotten": services.forget_old_keys(now=now) + services.forget_old_pushes(now=now),
    }


@shared_task(name="buffer.jobs.turn_segments")
def turn_segments() -> dict[str, int]:
    """Go on to the next segment when the open one is full, and drop those that are due."""
    now = timezone.now()
    number = services.turn_segment(now=now)
    report = services.apply_retention(now=now)
    return {"open": number, "dropped": len(report.dropped), "moved": report.moved_items}
