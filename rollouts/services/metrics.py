"""Store what trainers measure."""

from datetime import datetime

from django.db import transaction

from rollouts.models import MetricSample
from rollouts.wire import MetricsPush
from runs.live import announce


@transaction.atomic
def record_metrics(*, run_id: int, push: MetricsPush, now: datetime) -> int:
    """Store the samples; return how many."""
    rows = [
        MetricSample(run_id=run_id, name=one.name, step=one.step, value=one.value, at=now)
        for one in push.samples
    ]
    MetricSample.objects.bulk_create(rows)
    announce(run_id, "metrics")
    return len(rows)
