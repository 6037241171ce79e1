"""Forget alerts that have been over for long, and what was told of them."""

from datetime import datetime, timedelta
from typing import Final

from django.conf import settings
from django.db import transaction
from django.db.models import Q

from runs.models import Alert, AlertDelivery, AlertSilence

AT_ONCE: Final = 2_000
"""Rows of one pass, so that none holds its locks for long; the next one goes on."""


@transaction.atomic
def forget_alerts(*, now: datetime) -> int:
    """Forget what is older than the retention of alerts; return how many alerts there were.

    What is not cleared still holds, whatever people have said of it, and stays. With an alert its
    deliveries go; samples and silences that are over go by their own age.
    """
    days = settings.ROLLDECK_ALERT_RETENTION_DAYS
    if not days:
        return 0
    before = now - timedelta(days=days)
    samples = AlertDelivery.objects.filter(alert=None, created_at__lt=before)
    AlertDelivery.objects.filter(pk__in=samples.values("pk")[:AT_ONCE]).delete()
    AlertSilence.objects.filter(Q(until__lt=before) | Q(ended_at__lt=before)).delete()
    over = Alert.objects.filter(cleared_at__lt=before).order_by("pk").values_list("pk", flat=True)
    gone = list(over[:AT_ONCE])
    AlertDelivery.objects.filter(alert__in=gone).delete()
    return Alert.objects.filter(pk__in=gone, cleared_at__lt=before).delete()[0]
