"""Queries about fleets for pages, fleets and the reconciler."""

from collections import Counter
from datetime import datetime
from typing import Any, Final

from django.db.models import Sum

from buffer.batches.queries.queues import is_drained
from buffer.items.queries import admission_remaining
from rolldeck.wire import FleetControl
from rollouts.control import rules
from rollouts.control.models import EnvSlot, Fleet, FleetWorker, LogRequest
from rollouts.control.queries import machines, pending_commands
from rollouts.control.rules import UNKNOWN_AFTER, Action, FleetView, LastReports, decide, desired_of
from rollouts.control.schemas.fleets import (
    FleetLog,
    FleetState,
    RunHeartbeat,
    SlotState,
    WorkerState,
)
from runs.lifecycle.models import Run
from runs.lifecycle.queries import RunNotFound
from runs.lifecycle.rules import ACTIVE, RunStatus
from runs.weights import queries as weights_commands

HEARTBEATS_AT_MOST: Final = 200
"""Newest active runs with a fleet whose heartbeats are listed, as many as in the live list."""
_REPORTS: Final = ("run", "observed", "incarnation", "observed_at", "heard_at", "launched_at")


def control_of(run_id: int) -> FleetControl:
    """Return the desired state of a run's fleet.

    Raises:
        RunNotFound: If the run was deleted.
    """
    logs, recordings = (
        pending_commands.pending_logs(run_id),
        pending_commands.pending_recordings(run_id),
    )
    restarts, cordons = (
        pending_commands.pending_restarts(run_id),
        pending_commands.pending_cordons(run_id),
    )
    stacks, closed = pending_commands.pending_stacks(run_id), machines.pending_machine_cordons()
    fields = ("status", "archived_at", "epoch", "policy_step", "num_workers")
    run = Run.objects.only(*fields).filter(pk=run_id).first()
    if run is None:
        raise RunNotFound(f"run {run_id} was deleted")
    weights = weights_commands.newest_command(run_id)
    orders: dict[str, Any] = {
        "desired": desired_of(_status_of(run)),
        "epoch": run.epoch,
        "policy_step": weights_commands.acting_step(run, weights),
        "admission_remaining": admission_remaining(run_id),
        "num_workers": run.num_workers or 0,
        "weights_command": weights.number if weights else 0,
    }
    request_ids = [
        *(log.id for log in logs),
        *(recording.id for recording in recordings),
        *(one.id for one in stacks),
    ]
    request_ids += [restart.incarnation for restart in restarts]
    request_ids += [f"cordon {cordon.worker}" for cordon in cordons]
    request_ids += [f"machine {machine.node}" for machine in closed]
    fingerprint = rules.fingerprint(**orders, operator_requests=request_ids)
    return FleetControl(
        fingerprint=fingerprint,
        log_requests=logs,
        recordings=recordings,
        restarts=restarts,
        cordons=cordons,
        stacks=stacks,
        machines=closed,
        **orders,
    )


def fleet_log(row_id: int, *, since: datetime, now: datetime) -> FleetLog:
    """Return the last read lines of a log, and whether they are newer than `since`."""
    row = LogRequest.objects.get(pk=row_id)
    fleet = Fleet.objects.filter(run_id=row.run_id).first()
    is_read = row.answered_at is not None and row.answered_at >= since
    state, note = ("read", row.note) if is_read else _why_unread(fleet, now=now)
    return FleetLog(
        state=state,  # type: ignore[arg-type]
        note=note,
        worker=row.worker,
        slot=row.slot,
        lines=row.content[-row.lines :],
        read_at=row.answered_at,
        node=row.node,
        path=row.path,
    )


def _why_unread(fleet: Fleet | None, *, now: datetime) -> tuple[str, str]:
    if fleet is None or not fleet.incarnation:
        return "silent", "No manager is running; the logs remain on the nodes where the fleet ran."
    if fleet.observed_at is None:
        return "waiting", "The fleet's manager has not reported yet."
    silent_seconds = (now - fleet.observed_at).total_seconds()
    return (
        "waiting",
        f"The fleet has not answered yet; its last report came {silent_seconds:.0f} s ago.",
    )


def fleet_view(run_id: int) -> FleetView:
    """Return the reconciler's input."""
    run = Run.objects.get(pk=run_id)
    fleet = Fleet.objects.filter(run_id=run_id).first() or Fleet(run=run)
    status = _status_of(run)
    return FleetView(
        status=status,
        launches_fleets=run.has_fleet,
        has_manager=bool(fleet.incarnation),
        observed=fleet.observed,
        reason=fleet.reason,
        is_final=fleet.is_final,
        launched_at=fleet.launched_at,
        observed_at=fleet.observed_at,
        recent_launches_at=tuple(fleet.recent_launches_at),
        buffer_is_drained=status is RunStatus.DRAINING and is_drained(run_id),
        drain_deadline_at=run.drain_deadline_at,
    )


def runs_to_reconcile(*, now: datetime) -> list[int]:
    """Return the runs that need a pass of the reconciler."""
    with_fleet = Run.objects.exclude(fleet=None).exclude(fleet__incarnation="")
    active = Run.objects.current().active()
    watched = {*active.values_list("pk", flat=True), *with_fleet.values_list("pk", flat=True)}
    return sorted(
        run_id
        for run_id in watched
        if decide(fleet_view(run_id), now=now).action is not Action.WAIT
    )


def has_launched() -> bool:
    """Return whether any manager was ever launched."""
    return Fleet.objects.filter(attempt__gt=0).exists()


def running_fragments(run_id: int) -> int:
    """Return the last reported number of started but undelivered fragments of a run's fleet."""
    alive = FleetWorker.objects.filter(fleet__run_id=run_id).exclude(fleet__incarnation="")
    found = alive.exclude(state__in=["failed", "stopped"]).aggregate(Sum("outstanding"))
    return int(found["outstanding__sum"] or 0)


def fleet_state(run_id: int, *, now: datetime) -> FleetState:
    """Return the desired and the last reported state of a run's fleet.

    A state without a recent proof is shown as `unknown`, with the age of its last proof.
    """
    run = Run.objects.only("status", "archived_at").get(pk=run_id)
    fleet = Fleet.objects.filter(run_id=run_id).first()
    if fleet is None:
        return FleetState(desired=desired_of(_status_of(run)), observed="none")
    slots = _slots_of(fleet)
    found = FleetWorker.objects.filter(fleet=fleet).order_by("index")
    workers = [_worker_state(worker, slots.get(worker.pk, []), now=now) for worker in found]
    reports = last_reports(fleet)
    return FleetState(
        desired=desired_of(_status_of(run)),
        observed=reports.state(now=now),  # type: ignore[arg-type]
        observed_at=fleet.heard_at,
        age_seconds=_age(fleet.heard_at, now=now),
        confirmed_at=reports.confirmed_at,
        launched_at=fleet.launched_at,
        attempt=fleet.attempt,
        reason=reports.doubt(now=now) or fleet.reason,
        env_steps_total=fleet.env_steps_total,
        workers=workers,
    )


def last_reports(fleet: Fleet) -> LastReports:
    """Return the last reports of a fleet."""
    return LastReports(
        observed=fleet.observed,
        has_manager=bool(fleet.incarnation),
        reported_at=fleet.observed_at,
        heard_at=fleet.heard_at,
        launched_at=fleet.launched_at,
    )


def fleet_heartbeats() -> list[RunHeartbeat]:
    """Return the last report of the fleet of each active run that is expected to report."""
    fleets = Fleet.objects.filter(run__archived_at=None, run__status__in=ACTIVE)
    newest = fleets.order_by("-run__created_at", "-run_id").only(*_REPORTS)
    found = [
        (fleet.run_id, last_reports(fleet).confirmed_at) for fleet in newest[:HEARTBEATS_AT_MOST]
    ]
    return [RunHeartbeat(run_id=run_id, observed_at=at) for run_id, at in found if at is not None]


def weights_transfers(run_id: int) -> dict[str, float]:
    """Return the totals of weight transfers over a run's workers."""
    total: Counter[str] = Counter()
    for transfers in FleetWorker.objects.filter(fleet__run_id=run_id).values_list(
        "transfers", flat=True
    ):
        total.update(transfers)
    return dict(total)


def _status_of(run: Run) -> RunStatus:
    """Return the run's status; an archived run counts as ended."""
    return RunStatus.STOPPED if run.archived_at else RunStatus(run.status)


def _age(at: datetime | None, *, now: datetime) -> float | None:
    return None if at is None else round(max(0.0, (now - at).total_seconds()), 1)


def _shown(state: str, at: datetime | None, *, now: datetime) -> Any:
    settled = state in {"none", "stopped", "failed"}
    stale = at is not None and now - at > UNKNOWN_AFTER
    return "unknown" if stale and not settled else state


def _slots_of(fleet: Fleet) -> dict[int, list[SlotState]]:
    """Return all slots by worker id, in order; there may be tens of thousands."""
    fields = SlotState.__struct_fields__
    rows = EnvSlot.objects.filter(worker__fleet=fleet).order_by("slot")
    slots: dict[int, list[SlotState]] = {}
    for worker_id, *values in rows.values_list("worker_id", *fields):
        slots.setdefault(worker_id, []).append(SlotState(**dict(zip(fields, values, strict=True))))
    return slots


def _worker_state(worker: FleetWorker, slots: list[SlotState], *, now: datetime) -> WorkerState:
    fields = {
        field: getattr(worker, field)
        for field in WorkerState.__struct_fields__
        if field not in {"slots", "state", "age_seconds"}
    }
    return WorkerState(
        state=_shown(worker.state, worker.heartbeat_at, now=now),
        age_seconds=_age(worker.heartbeat_at, now=now) or 0.0,
        slots=slots,
        **fields,
    )
