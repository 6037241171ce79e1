"""Retention of rollout outcomes."""

from datetime import datetime, timedelta
from typing import Final

from django.conf import settings
from django.db.models import Max

from rollouts.curriculum.models import LessonOutcome

REPEATED_WITHIN: Final = timedelta(hours=1)
"""Minimum retention of outcomes, so that a repeated outcome does not count twice."""


def delete_old_outcomes(*, now: datetime) -> int:
    """Delete outcomes beyond the retention time or the total limit; return their number.

    The progress of lessons is kept.
    """
    settled = LessonOutcome.objects.filter(at__lt=now - REPEATED_WITHIN)
    forgotten = 0
    if settings.ROLLDECK_OUTCOME_SECONDS:
        oldest = now - timedelta(seconds=settings.ROLLDECK_OUTCOME_SECONDS)
        forgotten += settled.filter(at__lt=oldest).delete()[0]
    newest = LessonOutcome.objects.aggregate(newest=Max("pk"))["newest"]
    if settings.ROLLDECK_OUTCOME_ROWS and newest is not None:
        # Ids rise by one per row, so no count is needed.
        last = newest - settings.ROLLDECK_OUTCOME_ROWS
        forgotten += settled.filter(pk__lte=last).delete()[0]
    return forgotten
