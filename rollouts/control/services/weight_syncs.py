"""Storage of weight syncs: the times at which versions reached workers."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

import msgspec
from django.db import connection

from rolldeck import wire
from rollouts.control.models import Fleet
from rollouts.control.rules import NONE_STEP, Stage, Steps, advances
from runs.lifecycle.models import Run
from web.live.announcements import announce

KEPT_STEPS: Final = 200
"""Number of versions per epoch for which weight syncs are kept."""

_STORE: Final = """
    INSERT INTO rollouts_weightsdelivery
        (fleet_id, epoch, step, worker, announced_at, staged_at, active_at)
    SELECT fleet_id, epoch, step, worker, announced_at, staged_at, active_at
    FROM json_populate_recordset(NULL::rollouts_weightsdelivery, %s::json)
    ON CONFLICT (fleet_id, epoch, step, worker) DO UPDATE SET
        announced_at = COALESCE(rollouts_weightsdelivery.announced_at, EXCLUDED.announced_at),
        staged_at = COALESCE(rollouts_weightsdelivery.staged_at, EXCLUDED.staged_at),
        active_at = COALESCE(rollouts_weightsdelivery.active_at, EXCLUDED.active_at)"""
_FORGET: Final = """
    DELETE FROM rollouts_weightsdelivery
    WHERE fleet_id = %s AND (epoch < %s - 1 OR (epoch = %s AND step < %s))"""


def record_weight_syncs(
    fleet: Fleet,
    workers: Iterable[wire.WorkerReport],
    before: Mapping[int, tuple[str, Steps]],
    *,
    now: datetime,
) -> None:
    """Store the stages that versions have reached since the last report.

    Args:
        fleet: Fleet of the workers.
        workers: Their present state.
        before: Incarnation and steps of each worker in the last report, by index.
        now: Time of the report.
    """
    reached: dict[tuple[int, int], set[Stage]] = defaultdict(set)
    for worker in workers:
        incarnation, steps = before.get(worker.index, ("", None))
        if incarnation != worker.incarnation or steps is None:
            # Versions that a new process has from its start were not synced now.
            steps = Steps(NONE_STEP, NONE_STEP, NONE_STEP)
        after = Steps(worker.announced_step, worker.staged_step, worker.active_step)
        for step, stage in advances(steps, after):
            reached[worker.index, step].add(stage)
    if reached:
        _store(fleet, reached, now=now)


def _store(fleet: Fleet, reached: Mapping[tuple[int, int], set[Stage]], *, now: datetime) -> None:
    epoch = Run.objects.values_list("epoch", flat=True).get(pk=fleet.run_id)
    stages: tuple[Stage, ...] = ("announced", "staged", "active")
    rows: list[dict[str, Any]] = [
        {"fleet_id": fleet.pk, "epoch": epoch, "step": step, "worker": worker}
        | {f"{stage}_at": now if stage in at else None for stage in stages}
        for (worker, step), at in reached.items()
    ]
    announce(fleet.run_id, "weights")
    newest = max(row["step"] for row in rows)
    with connection.cursor() as cursor:
        cursor.execute(_STORE, [msgspec.json.encode(rows).decode()])
        cursor.execute(_FORGET, [fleet.pk, epoch, epoch, newest - KEPT_STEPS])
