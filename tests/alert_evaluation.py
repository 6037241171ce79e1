"""One evaluation of alerts as by the background jobs: diagnoses are recorded, then conditions."""

from datetime import datetime

from rollouts.diagnosis.services import record_diagnoses
from runs.alerts.services import alerts


def evaluate_alerts(*, now: datetime) -> int:
    """Evaluate all alerts once; return the number of alerts raised or cleared."""
    record_diagnoses(now=now)
    return alerts.watch(now=now)
