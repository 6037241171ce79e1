"""Periodic evaluation of diagnoses.

The kind of each diagnosis is recorded, so that the next evaluation applies its hysteresis on every
page and in every process alike.
"""

import logging
from datetime import datetime
from typing import Final

from rollouts.diagnosis.models import RunDiagnosis
from rollouts.diagnosis.queries.pipelines import diagnosis_of
from runs.lifecycle.models.runs import Run

logger = logging.getLogger(__name__)

ACTIVE: Final = ("queued", "starting", "running", "paused", "draining")


def record_diagnoses(*, now: datetime) -> int:
    """Record the diagnosis of each active run; return their number."""
    runs = Run.objects.filter(status__in=ACTIVE, archived_at=None).values_list("pk", flat=True)
    return sum(_is_recorded(run_id, now=now) for run_id in runs)


def _is_recorded(run_id: int, *, now: datetime) -> bool:
    try:
        record_diagnosis(run_id=run_id, now=now)
    except Exception:
        logger.exception("run %d not diagnosed", run_id)
        return False
    return True


def record_diagnosis(*, run_id: int, now: datetime) -> None:
    """Record the kind of a run's diagnosis, and the time of its last change."""
    kind = diagnosis_of(run_id, now=now).kind
    if not RunDiagnosis.objects.filter(run_id=run_id, kind=kind).exists():
        RunDiagnosis.objects.update_or_create(run_id=run_id, defaults={"kind": kind, "since": now})
