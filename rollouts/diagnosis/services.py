"""Periodic record of diagnoses, for their hysteresis and for alerts.

Pages compute a diagnosis when they show it. The record has the causes of the last evaluation, so
that every page and process applies the same hysteresis, and the alerts that are due.
"""

import logging
from datetime import datetime

from rollouts.diagnosis.models import RunDiagnosis
from rollouts.diagnosis.queries.pipelines import judge
from runs.lifecycle.models import Run
from runs.lifecycle.rules import ACTIVE

logger = logging.getLogger(__name__)


def record_diagnoses(*, now: datetime) -> int:
    """Record the diagnosis of each active run; return their number."""
    recorded = 0
    for run in Run.objects.filter(status__in=ACTIVE, archived_at=None):
        try:
            record_diagnosis(run, now=now)
            recorded += 1
        except Exception:
            logger.exception("run %d not diagnosed", run.pk)
    return recorded


def record_diagnosis(run: Run, *, now: datetime) -> None:
    """Record the causes of a run with the times from which they have been named, and its alerts."""
    causes, recorded = judge(run, now=now)
    known = recorded.causes if recorded else {}
    since = {cause.key: known.get(cause.key, now.isoformat()) for cause in causes}
    fields = {
        "kind": causes[0].kind,
        "causes": since,
        "alerts": [
            {"kind": cause.kind, **alert._asdict()} for cause in causes for alert in cause.alerts
        ],
    }
    if recorded and all(getattr(recorded, name) == value for name, value in fields.items()):
        return
    first = datetime.fromisoformat(since[causes[0].key])
    RunDiagnosis.objects.update_or_create(run=run, defaults={**fields, "since": first})
