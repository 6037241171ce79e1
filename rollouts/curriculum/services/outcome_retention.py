"""Forget how rollouts ended long ago."""

from datetime import datetime, timedelta
from typing import Final

from django.conf import settings
from django.db.models import Max

from rollouts.curriculum.models import LessonOutcome

TOLD_AGAIN_WITHIN: Final = timedelta(hours=1)
"""Outcomes are kept so long in any case: one that is told again must not count twice."""


def forget_outcomes(*, now: datetime) -> int:
    """Delete outcomes that are too old, or more than are kept of all runs; return how many.

    What lessons have learnt from them stays.
    """
    settled = LessonOutcome.objects.filter(at__lt=now - TOLD_AGAIN_WITHIN)
    forgotten = 0
    if settings.ROLLDECK_OUTCOME_SECONDS:
        oldest = now - timedelta(seconds=settings.ROLLDECK_OUTCOME_SECONDS)
        forgotten += settled.filter(at__lt=oldest).delete()[0]
    newest = LessonOutcome.objects.aggregate(newest=Max("pk"))["newest"]
    if settings.ROLLDECK_OUTCOME_ROWS and newest is not None:
        # Numbers rise by one for each row, so nothing has to be counted.
        last = newest - settings.ROLLDECK_OUTCOME_ROWS
        forgotten += settled.filter(pk__lte=last).delete()[0]
    return forgotten
