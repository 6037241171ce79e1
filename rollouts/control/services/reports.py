"""Storage of fleet reports."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from django.db import transaction

from rolldeck import wire
from rollouts.control import rules as control_rules
from rollouts.control.models import EnvSlot, EpisodeWindow, Fleet, FleetWorker
from rollouts.control.rules import Steps, mean, recent_returns_of, valid_usage
from rollouts.control.services import attempts
from rollouts.control.services.many_rows import store_rows
from rollouts.control.services.weight_syncs import record_weight_syncs
from rollouts.fleet.process import logs
from rollouts.fleet.spool.sender import FRAGMENT_REFUSED
from rollouts.fleet.worker.messages import NEVER_SPAWNED
from runs.events.services import record_event
from runs.lifecycle.models import Run
from runs.lifecycle.rules import RunStatus
from runs.lifecycle.services.lifecycle import move
from runs.lifecycle.services.refused_pushes import RefusedPush, count_for_runs
from web.live.announcements import announce


@transaction.atomic
def accept_report(*, run_id: int, report: wire.FleetReport, now: datetime) -> bool:
    """Store a report once; return False if it was stored before.

    Raises:
        StaleIncarnation: If the run has another manager now, or none.
        InvalidReport: If the report contains a worker or a slot twice.
    """
    control_rules.check_report(report)
    fleet = Fleet.objects.select_for_update().filter(run_id=run_id).first()
    if fleet is None or fleet.incarnation != report.incarnation:
        current = (fleet.incarnation if fleet else "") or "none"
        raise control_rules.StaleIncarnation(
            f"incarnation {report.incarnation}; the run's manager is {current}"
        )
    if report.sequence <= fleet.sequence:
        return False
    if fleet.observed_at is None:
        _clear_start_failure(run_id)
    fleet.env_steps_total += _store_workers(fleet, report.workers, now=now)
    _store_episodes(fleet, report.episodes, now=now)
    _store_info(fleet, report.info, now=now)
    fleet.sequence = report.sequence
    fleet.observed, fleet.reason = report.state, report.reason
    fleet.observed_at = fleet.heard_at = now
    fleet.is_final, fleet.node_id = report.is_final, report.node_id
    fleet.save()
    _store_events(run_id, report.events, now=now)
    endings = [event.ending for event in report.events if event.ending]
    attempts.end_attempts(fleet, endings, now=now)
    _start_run_with_steps(run_id, report.workers, now=now)
    announce(run_id, "fleet", *(["episodes"] if report.episodes else []))
    return True


def _clear_start_failure(run_id: int) -> None:
    """Clear the reason why the fleet cannot start: it has sent its first report."""
    troubled = Run.objects.filter(pk=run_id, status=RunStatus.STARTING).exclude(status_reason="")
    if troubled.update(status_reason=""):
        announce(run_id, "run")


def _store_workers(fleet: Fleet, workers: Iterable[wire.WorkerReport], *, now: datetime) -> int:
    """Store the workers and their slots; return the env steps since the last report."""
    stored = list(FleetWorker.objects.filter(fleet=fleet))
    before = {worker.index: (worker.incarnation, worker.env_steps) for worker in stored}
    workers = list(workers)
    record_weight_syncs(fleet, workers, _steps_of(stored), now=now)
    attempts.start_attempts(fleet, _new_ones(workers, before), now=now)
    steps = 0
    rows: list[dict[str, Any]] = []
    slots: list[dict[str, Any]] = []
    for worker in workers:
        values = msgspec.structs.asdict(worker)
        reported_slots, _ = values.pop("slots"), values.pop("machine")
        # Text printed by an environment; the fleet sanitizes it.
        values["last_log"] = logs.clean(worker.last_log)
        values |= valid_usage(worker)
        rows.append({**values, "fleet_id": fleet.pk, "heartbeat_at": now})
        # An index, not yet an id: the id is looked up when the slots are stored.
        slots += [
            {"worker_id": worker.index, **msgspec.structs.asdict(slot)} for slot in reported_slots
        ]
        steps += control_rules.env_steps_since(
            before=before.get(worker.index),
            incarnation=worker.incarnation,
            env_steps=worker.env_steps,
        )
    store_rows(FleetWorker, rows, key=("fleet_id", "index"))
    ids = dict(FleetWorker.objects.filter(fleet=fleet).values_list("index", "pk"))
    for slot in slots:
        slot["worker_id"] = ids[slot["worker_id"]]
    store_rows(EnvSlot, slots, key=("worker_id", "slot"))
    _mark_absent_stopped(fleet, {row["index"] for row in rows})
    return steps


def _steps_of(stored: Iterable[FleetWorker]) -> dict[int, tuple[str, Steps]]:
    """Return incarnation and versions of each worker in the last report, by index."""
    return {
        worker.index: (
            worker.incarnation,
            Steps(worker.announced_step, worker.staged_step, worker.active_step),
        )
        for worker in stored
    }


def _new_ones(
    workers: Iterable[wire.WorkerReport], before: Mapping[int, tuple[str, int]]
) -> list[wire.WorkerReport]:
    """Return the workers with another incarnation than in the last report, or without one."""
    return [
        worker
        for worker in workers
        if worker.incarnation != NEVER_SPAWNED
        and before.get(worker.index, ("", 0))[0] != worker.incarnation
    ]


def _mark_absent_stopped(fleet: Fleet, present: set[int]) -> None:
    """Mark workers absent from the report as stopped: the fleet was scaled down."""
    left = FleetWorker.objects.filter(fleet=fleet).exclude(index__in=present)
    left = left.exclude(state="stopped")
    ids = list(left.values_list("pk", flat=True))
    if ids:
        # The cordon of a removed index ends: a later worker of that index is another worker.
        left.update(
            state="stopped",
            env_steps_per_second=0.0,
            to_send=0,
            outstanding=0,
            is_cordoned=False,
            cordoned_at=None,
        )
        EnvSlot.objects.filter(worker__in=ids).update(state="stopped", pid=None)


def _store_episodes(fleet: Fleet, windows: Iterable[wire.EpisodeWindow], *, now: datetime) -> None:
    served_steps = Run.objects.values_list("served_steps", flat=True).get(pk=fleet.run_id)
    rows = []
    for window in windows:
        if window.mode == "train":
            fleet.recent_returns = recent_returns_of(fleet.recent_returns, window.returns)
        rows.append(
            {
                **msgspec.structs.asdict(window),
                "run_id": fleet.run_id,
                "at": now,
                "env_steps_total": fleet.env_steps_total,
                "served_steps": served_steps,
                "recent_return_mean": mean(fleet.recent_returns),
            }
        )
    store_rows(EpisodeWindow, rows)


def _store_info(fleet: Fleet, window: wire.InfoWindow, *, now: datetime) -> None:
    """Add values of `info` to the run's sums, and record an event per new problem."""
    added = control_rules.added(fleet.info_totals, window)
    fleet.info_totals = added.totals
    for drops in added.first_drops:
        record_event(
            run_id=fleet.run_id,
            kind="info_values_dropped",
            message=control_rules.message_of(drops),
            actor="fleet",
            level="warning",
            details={"problem": drops.problem, "example": drops.example},
            now=now,
        )


def _store_events(run_id: int, events: Sequence[wire.FleetEvent], *, now: datetime) -> None:
    """Store events; refused fragments also count as refused pushes of the run."""
    for event in events:
        record_event(
            run_id=run_id,
            kind=event.kind,
            message=event.message,
            actor="fleet",
            level=event.level,
            details=event.details,
            now=now,
        )
    count_for_runs(
        (run_id, _refused_fragments(run_id, event, now=now))
        for event in events
        if event.kind == FRAGMENT_REFUSED
    )


def _refused_fragments(run_id: int, event: wire.FleetEvent, *, now: datetime) -> RefusedPush:
    given = event.details.get("fragments")
    fragments = given if isinstance(given, int) and given > 0 else 1
    return RefusedPush(
        run=run_id,
        groups=fragments,
        groups_by_env={},
        reason=str(event.details.get("reason", "other"))[:60],
        message=str(event.details.get("error", event.message)),
        at=now,
        pushes=fragments,
    )


def _start_run_with_steps(
    run_id: int, workers: Iterable[wire.WorkerReport], *, now: datetime
) -> None:
    """Set a starting run to running once one of its workers has stepped an environment."""
    if not any(worker.env_steps for worker in workers):
        return
    # Only from starting: a run paused in the meantime must stay paused.
    starting = Run.objects.select_for_update().filter(pk=run_id, status=RunStatus.STARTING)
    if starting.exists():
        move(run_id=run_id, target=RunStatus.RUNNING, actor="fleet", now=now)
