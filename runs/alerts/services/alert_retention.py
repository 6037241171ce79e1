"""Retention of cleared alerts and their deliveries."""

from datetime import datetime, timedelta
from typing import Final

from django.conf import settings
from django.db import transaction
from django.db.models import Q

from runs.alerts.models import Alert, AlertDelivery, AlertSilence

AT_ONCE: Final = 2_000
"""Rows per pass, which bounds the time that locks are held; the next pass continues."""


@transaction.atomic
def delete_old_alerts(*, now: datetime) -> int:
    """Delete alerts older than the retention period; return their number.

    Alerts that are not cleared stay, whether acknowledged, resolved or open. Deliveries are deleted
    with their alert; test deliveries and ended silences are deleted by their own age.
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
