"""Change what the platform remembers about fleets."""

from rollouts.services.launches import begin_launch, note_ended, note_placed, note_trouble
from rollouts.services.metrics import record_metrics
from rollouts.services.reconciliation import reconcile
from rollouts.services.reports import accept_report

__all__ = [
    "accept_report",
    "begin_launch",
    "note_ended",
    "note_placed",
    "note_trouble",
    "reconcile",
    "record_metrics",
]
