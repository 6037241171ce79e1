"""Queries for fleets: their state, pending requests, incarnations of workers, weight syncs."""

from collections import Counter
from datetime import datetime, timedelta
from typing import Any, Final

from django.db.models import Count, F, Max, Q, QuerySet, Sum
from django.db.models.functions import Now

from buffer.batches.queries.queues import is_drained
from buffer.items.queries import admission_remaining
from rolldeck import operator_requests
from rolldeck.wire import FleetControl
from rollouts.control import rules
from rollouts.control.models import (
    EnvSlot,
    Fleet,
    FleetWorker,
    LogRequest,
    Outage,
    Recording,
    WeightsDelivery,
    WorkerAttempt,
)
from rollouts.control.queries import machines
from rollouts.control.rules import (
    UNKNOWN_AFTER,
    Action,
    Desired,
    FleetView,
    LastReports,
    decide,
    desired_of,
)
from rollouts.control.schemas import (
    AttemptRow,
    FleetLog,
    FleetState,
    RunHeartbeat,
    SlotState,
    WeightsProgress,
    WeightSyncRow,
    WorkerStacks,
    WorkerState,
)
from runs.lifecycle.models import Run
from runs.lifecycle.queries import RunNotFound, policy_versions
from runs.lifecycle.rules import ACTIVE, RunStatus
from runs.weights import queries as weights_commands
from runs.weights.queries import acting_step, newest_command

HEARTBEATS_AT_MOST: Final = 200
"""Newest active runs with a fleet whose heartbeats are listed, as many as in the live list."""
_REPORTS: Final = ("run", "observed", "incarnation", "observed_at", "heard_at", "launched_at")
_SETTLED: Final = ("stopped", "failed")
"""States of workers that a missing heartbeat does not put into doubt."""
LOG_REQUEST_LIFETIME: Final = timedelta(seconds=15)
"""Age at which a request for a log or stacks is abandoned."""
LOGS_AT_ONCE: Final = 64
_LIVE = ("node", "pid", "env_steps", "fragments_sent")
SYNCS_AT_MOST: Final = 5000
_LOOKED_BACK: Final = 3
"""Number of newest versions that may still be in transit to workers."""


def control_of(run_id: int) -> FleetControl:
    """Return the desired state of a run's fleet.

    Raises:
        RunNotFound: If the run was deleted.
    """
    logs, stacks = pending_logs(run_id), pending_stacks(run_id)
    recordings, restarts = pending_recordings(run_id), pending_restarts(run_id)
    cordons, closed = pending_cordons(run_id), machines.pending_machine_cordons()
    fields = ("status", "archived_at", "epoch", "policy_step", "num_workers")
    run = Run.objects.only(*fields).filter(pk=run_id).first()
    if run is None:
        raise RunNotFound(f"run {run_id} was deleted")
    weights = weights_commands.newest_command(run_id)
    orders: dict[str, Any] = {
        "desired": _desired_of(run),
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


def outage_of_run(run: Run) -> Outage | None:
    """Return the outage that has paused a run, so that its fleet samples probes."""
    if run.status != RunStatus.PAUSED:
        return None
    return Outage.objects.filter(run=run, lesson="", ended_at=None).first()


def _desired_of(run: Run) -> Desired:
    return desired_of(_status_of(run), is_probed=outage_of_run(run) is not None)


def fleet_log(row_id: int, *, since: datetime, now: datetime) -> FleetLog:
    """Return the last read lines of a log, and whether they are newer than `since`."""
    row = LogRequest.objects.get(pk=row_id)
    fleet = Fleet.objects.filter(run_id=row.run_id).first()
    is_read = row.answered_at is not None and row.answered_at >= since
    if is_read:
        state, note = "read", row.note
    elif fleet is None or not fleet.incarnation:
        state = "silent"
        note = "No manager is running; the logs remain on the nodes where the fleet ran."
    elif fleet.observed_at is None:
        state, note = "waiting", "The fleet's manager has not reported yet."
    else:
        seconds = (now - fleet.observed_at).total_seconds()
        state = "waiting"
        note = f"The fleet has not answered yet; its last report came {seconds:.0f} s ago."
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
        probe_at=outage.probe_at if (outage := outage_of_run(run)) else None,
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


def unended_fleet(run_id: int) -> str:
    """Return that a run's fleet has not ended on the cluster yet; empty if it has."""
    if not Fleet.objects.filter(run_id=run_id).exclude(incarnation="").exists():
        return ""
    return "its fleet has not ended on the cluster yet: repeat the request in a few seconds"


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
        return FleetState(desired=_desired_of(run), observed="none")
    # Slots by the id of their worker; there may be tens of thousands.
    slot_fields = SlotState.__struct_fields__
    slot_rows = EnvSlot.objects.filter(worker__fleet=fleet).order_by("slot")
    slots: dict[int, list[SlotState]] = {}
    for worker_id, *values in slot_rows.values_list("worker_id", *slot_fields):
        slot = SlotState(**dict(zip(slot_fields, values, strict=True)))
        slots.setdefault(worker_id, []).append(slot)
    worker_fields = set(WorkerState.__struct_fields__) - {"slots", "state", "age_seconds"}
    workers = [
        WorkerState(
            state="unknown"  # type: ignore[arg-type]
            if now - worker.heartbeat_at > UNKNOWN_AFTER and worker.state not in _SETTLED
            else worker.state,
            age_seconds=_age(worker.heartbeat_at, now=now) or 0.0,
            slots=slots.get(worker.pk, []),
            **{field: getattr(worker, field) for field in worker_fields},
        )
        for worker in FleetWorker.objects.filter(fleet=fleet).order_by("index")
    ]
    reports = last_reports(fleet)
    return FleetState(
        desired=_desired_of(run),
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


def pending_logs(run_id: int) -> list[operator_requests.LogRequest]:
    """Return the unanswered log requests of the last seconds."""
    found = _unanswered(run_id, "log").values_list("request", "worker", "slot", "lines")
    return [
        operator_requests.LogRequest(id=str(request), worker=worker, slot=slot, lines=lines)
        for request, worker, slot, lines in found[:LOGS_AT_ONCE]
    ]


def pending_stacks(run_id: int) -> list[operator_requests.StacksRequest]:
    """Return the unanswered requests for stacks of the last seconds."""
    found = _unanswered(run_id, "stacks").values_list("request", "worker", "incarnation")
    return [
        operator_requests.StacksRequest(id=str(request), worker=worker, incarnation=incarnation)
        for request, worker, incarnation in found[:LOGS_AT_ONCE]
        if worker is not None
    ]


def _unanswered(run_id: int, kind: str) -> QuerySet[LogRequest]:
    pending = LogRequest.objects.filter(
        Q(answered_at=None) | Q(answered_at__lt=F("asked_at")),
        run_id=run_id,
        kind=kind,
        asked_at__gt=Now() - LOG_REQUEST_LIFETIME,
    )
    return pending.order_by("pk")


def pending_restarts(run_id: int) -> list[operator_requests.RestartCommand]:
    """Return the workers to replace, without those already replaced."""
    pending = FleetWorker.objects.filter(fleet__run_id=run_id, restart_of=F("incarnation"))
    rows = pending.order_by("index").values_list("index", "incarnation", "restart_reason")
    return [
        operator_requests.RestartCommand(worker=index, incarnation=incarnation, reason=reason)
        for index, incarnation, reason in rows
    ]


def pending_cordons(run_id: int) -> list[operator_requests.CordonCommand]:
    """Return the cordoned workers."""
    cordoned = FleetWorker.objects.filter(fleet__run_id=run_id).exclude(cordoned_at=None)
    rows = cordoned.order_by("index").values_list("index", "cordon_reason")
    return [operator_requests.CordonCommand(worker=index, reason=reason) for index, reason in rows]


def pending_recordings(run_id: int) -> list[operator_requests.RecordingCommand]:
    """Return the requested recordings, including those in progress."""
    found = Recording.objects.filter(run_id=run_id, state__in=["requested", "recording"])
    rows = found.order_by("requested_at", "pk").values_list("pk", "wanted_worker", "wanted_slot")
    return [
        operator_requests.RecordingCommand(id=str(pk), worker=worker, slot=slot)
        for pk, worker, slot in rows
    ]


def attempts(
    run_id: int, *, worker: int | None, before: int | None, limit: int
) -> list[AttemptRow]:
    """Return incarnations of the workers of a run, newest first, with ids below `before`."""
    found = WorkerAttempt.objects.filter(fleet__run_id=run_id)
    if worker is not None:
        found = found.filter(worker=worker)
    if before is not None:
        found = found.filter(pk__lt=before)
    rows = list(found.order_by("-pk").values(*AttemptRow.__struct_fields__)[:limit])
    alive = [row["incarnation"] for row in rows if row["ended_at"] is None]
    reported = FleetWorker.objects.filter(fleet__run_id=run_id, incarnation__in=alive)
    known = {row.pop("incarnation"): row for row in reported.values("incarnation", *_LIVE)}
    return [AttemptRow(**{**row, **known.get(row["incarnation"], {})}) for row in rows]


def worker_stacks(run_id: int, index: int, *, now: datetime) -> WorkerStacks:
    """Return the newest request for a worker's stacks, and its answer."""
    log_request = LogRequest.objects.filter(run_id=run_id, kind="stacks", worker=index).first()
    if log_request is None:
        return WorkerStacks(state="never", worker=index)
    is_answered = (
        log_request.answered_at is not None and log_request.answered_at >= log_request.asked_at
    )
    is_over = now - log_request.asked_at > LOG_REQUEST_LIFETIME
    return WorkerStacks(
        state="answered" if is_answered else "timeout" if is_over else "requested",
        worker=index,
        incarnation=log_request.incarnation,
        asked_at=log_request.asked_at,
        answered_at=log_request.answered_at if is_answered else None,
        lines=log_request.content if is_answered else [],
        node=log_request.node if is_answered else "",
        process=log_request.path if is_answered else "",
        note=log_request.note if is_answered else "",
    )


def weights_part(run_id: int) -> WeightsProgress | None:
    """Return the sync progress of the newest weights; None if the run was deleted."""
    run = Run.objects.filter(pk=run_id).first()
    if run is None:
        return None
    versions = policy_versions(run_id=run_id, limit=_LOOKED_BACK)
    newest = versions[0] if versions else None
    rows = WeightsDelivery.objects.filter(
        fleet__run_id=run_id, epoch=run.epoch, step__in=[one.step for one in versions]
    )
    stages = ("announced", "staged", "active")
    of_newest = Q(step=newest.step if newest else None)
    found = rows.aggregate(
        **{name: Count(f"{name}_at", filter=of_newest) for name in stages},
        **{f"{name}_last": Max(f"{name}_at") for name in stages},
    )
    command = newest_command(run_id)
    reported = [at for name in stages if (at := found[f"{name}_last"]) is not None]
    return WeightsProgress(
        newest=newest,
        acting_step=acting_step(run, command),
        order=command.number if command else 0,
        **{name: found[name] for name in stages},
        reported_at=max(reported, default=None),
    )


def deliveries(
    run_id: int, *, versions: int, after: tuple[int, int, int] | None, limit: int
) -> list[WeightSyncRow]:
    """Return the syncs of the newest `versions` to a run's workers, newest first.

    `after` is epoch, step and worker of the last row of the previous page.
    """
    of_run = WeightsDelivery.objects.filter(fleet__run_id=run_id)
    newest = list(
        of_run.order_by("-epoch", "-step").values_list("epoch", "step").distinct()[:versions]
    )
    if not newest:
        return []
    epoch, step = newest[-1]
    rows = of_run.filter(epoch__gte=epoch).exclude(epoch=epoch, step__lt=step)
    if after is not None:
        epoch, step, worker = after
        rows = rows.filter(
            Q(epoch__lt=epoch)
            | Q(epoch=epoch, step__lt=step)
            | Q(epoch=epoch, step=step, worker__gt=worker)
        )
    names = WeightSyncRow.__struct_fields__
    ordered = rows.order_by("-epoch", "-step", "worker")[:limit]
    return [WeightSyncRow(**row) for row in ordered.values(*names)]
