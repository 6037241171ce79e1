"""Storage of fleet reports, with incarnations of workers and weight syncs."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any, Final

import msgspec
from django.db import connection, models, transaction
from django.db.models import F, OuterRef, Subquery
from django.db.models.functions import Coalesce
from psycopg import sql

from rolldeck import wire
from rolldeck.wire import WorkerEnding, WorkerReport
from rollouts.control import rules as control_rules
from rollouts.control.models import EnvSlot, EpisodeWindow, Fleet, FleetWorker, WorkerAttempt
from rollouts.control.rules import NONE_STEP, Stage, Steps, advances, valid_usage
from rollouts.fleet.process import logs
from rollouts.fleet.spool.sender import FRAGMENT_REFUSED
from rollouts.fleet.worker.messages import NEVER_SPAWNED
from runs.events.services import record_event
from runs.lifecycle.models import Run
from runs.lifecycle.rules import RunStatus
from runs.lifecycle.services.lifecycle import move
from runs.lifecycle.services.refused_pushes import RefusedPush, count_for_runs
from web.live.announcements import announce

ATTEMPTS_KEPT: Final = 1000
"""Number of ended attempts kept per fleet, newest first."""
RECENT_RETURNS: Final = 20
"""Number of episodes whose mean return measures the present policy."""
KEPT_STEPS: Final = 200
"""Number of versions per epoch for which weight syncs are kept."""
_SHOWN_AT_ONCE: Final = (
    *("index", "incarnation", "state", "reason", "restarts", "is_cordoned"),
    *("announced_step", "staged_step", "active_step"),
)
"""Fields of workers whose changes pages show at once; counters, within 2 s."""
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


def start_attempts(fleet: Fleet, workers: Iterable[WorkerReport], *, now: datetime) -> None:
    """Start an attempt for each of `workers`; existing attempts stay unchanged."""
    begun = [
        WorkerAttempt(
            fleet=fleet, worker=worker.index, incarnation=worker.incarnation, started_at=now
        )
        for worker in workers
    ]
    if begun:
        WorkerAttempt.objects.bulk_create(begun, ignore_conflicts=True)


def end_attempts(fleet: Fleet, endings: Iterable[WorkerEnding], *, now: datetime) -> None:
    """End attempts with the reported data; some were never reported while they were alive."""
    endings = list(endings)
    for ending in endings:
        known = msgspec.structs.asdict(ending)
        known["worker"] = known.pop("index")
        WorkerAttempt.objects.update_or_create(
            fleet=fleet,
            incarnation=known.pop("incarnation"),
            defaults={**known, "ended_at": now},
            create_defaults={**known, "ended_at": now, "started_at": now},
        )
    if endings:
        _delete_old(fleet)


def end_all_attempts(fleet: Fleet, *, reason: str, now: datetime) -> None:
    """End every attempt of a fleet whose manager is gone, with its last reported data."""
    last = FleetWorker.objects.filter(fleet=fleet, incarnation=OuterRef("incarnation"))
    figures = ("node", "pid", "env_steps", "fragments_sent")
    WorkerAttempt.objects.filter(fleet=fleet, ended_at=None).update(
        ended_at=now,
        reason=reason,
        **{name: Coalesce(Subquery(last.values(name)[:1]), F(name)) for name in figures},
    )
    _delete_old(fleet)


def _delete_old(fleet: Fleet) -> None:
    ended = WorkerAttempt.objects.filter(fleet=fleet).exclude(ended_at=None)
    newest = ended.order_by("-pk").values_list("pk", flat=True)
    oldest_kept = newest[ATTEMPTS_KEPT - 1 : ATTEMPTS_KEPT].first()
    if oldest_kept is not None:
        ended.filter(pk__lt=oldest_kept).delete()


def store_rows(
    model: type[models.Model], rows: Sequence[Mapping[str, Any]], *, key: Sequence[str] = ()
) -> None:
    """Insert rows, or update existing rows that differ.

    Args:
        model: Model of the table.
        rows: Values by column, the same columns in each; JSON columns as plain values.
        key: Columns of a unique constraint; empty if every row is new.
    """
    if not rows:
        return
    names = list(rows[0])
    table = sql.Identifier(model._meta.db_table)  # noqa: SLF001 Django documents it
    statement = sql.SQL(
        "INSERT INTO {table} ({names}) SELECT {names}"
        " FROM json_populate_recordset(NULL::{table}, %s::json)"
    ).format(table=table, names=_listed(names))
    if key:
        changing = [name for name in names if name not in key]
        changes = [sql.SQL("{0} = EXCLUDED.{0}").format(sql.Identifier(name)) for name in changing]
        new = [sql.SQL("EXCLUDED.{}").format(sql.Identifier(name)) for name in changing]
        old = [sql.SQL("{}.{}").format(table, sql.Identifier(name)) for name in changing]
        # The condition skips unchanged rows.
        statement += sql.SQL(
            " ON CONFLICT ({key}) DO UPDATE SET {changes} WHERE ({old}) IS DISTINCT FROM ({new})"
        ).format(
            key=_listed(key),
            changes=sql.SQL(", ").join(changes),
            old=sql.SQL(", ").join(old),
            new=sql.SQL(", ").join(new),
        )
    with connection.cursor() as cursor:
        content = msgspec.json.encode(rows).decode()
        cursor.execute(statement.as_string(cursor.connection), [content])


def _listed(names: Sequence[str]) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, names))


def record_weight_syncs(
    fleet: Fleet,
    workers: Iterable[wire.WorkerReport],
    before: Mapping[int, tuple[str, Steps]],
    *,
    now: datetime,
) -> None:
    """Store the stages that versions have reached since the last report.

    `before` has the incarnation and the steps of each worker in the last report, by index.
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
    if not reached:
        return
    epoch = Run.objects.values_list("epoch", flat=True).get(pk=fleet.run_id)
    stages: tuple[Stage, ...] = ("announced", "staged", "active")
    rows: list[dict[str, Any]] = [
        {"fleet_id": fleet.pk, "epoch": epoch, "step": step, "worker": index}
        | {f"{stage}_at": now if stage in newly else None for stage in stages}
        for (index, step), newly in reached.items()
    ]
    announce(fleet.run_id, "weights")
    newest = max(row["step"] for row in rows)
    with connection.cursor() as cursor:
        cursor.execute(_STORE, [msgspec.json.encode(rows).decode()])
        cursor.execute(_FORGET, [fleet.pk, epoch, epoch, newest - KEPT_STEPS])


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
    stored = list(FleetWorker.objects.filter(fleet=fleet))
    is_news = _has_news(fleet, stored, report)
    if fleet.observed_at is None:
        # Clear the reason why the fleet cannot start: it has sent its first report.
        starting = Run.objects.filter(pk=run_id, status=RunStatus.STARTING)
        if starting.exclude(status_reason="").update(status_reason=""):
            announce(run_id, "run")
    fleet.env_steps_total += _store_workers(fleet, stored, report.workers, now=now)
    _store_episodes(fleet, report.episodes, now=now)
    added = control_rules.added(
        fleet.info_totals, report.info, has_ended_episodes=bool(fleet.recent_returns)
    )
    fleet.info_totals = added.totals
    for drops in added.first_drops:
        record_event(
            run_id=run_id,
            kind="info_values_dropped",
            message=control_rules.message_of(drops),
            actor="fleet",
            level="warning",
            details={"problem": drops.problem, "example": drops.example},
            now=now,
        )
    for key, steps in added.newly_absent.items():
        record_event(
            run_id=run_id,
            kind="info_key_absent",
            message=control_rules.absence_of(key, steps),
            actor="fleet",
            level="warning",
            details={"key": key, "env_steps": steps},
            now=now,
        )
    fleet.sequence = report.sequence
    fleet.observed, fleet.reason = report.state, report.reason
    fleet.observed_at = fleet.heard_at = now
    fleet.is_final, fleet.node_id = report.is_final, report.node_id
    fleet.save()
    _store_events(run_id, report.events, now=now)
    endings = [event.ending for event in report.events if event.ending]
    end_attempts(fleet, endings, now=now)
    if any(worker.env_steps for worker in report.workers):
        # Only from starting: a run paused in the meantime must stay paused.
        starting = Run.objects.select_for_update().filter(pk=run_id, status=RunStatus.STARTING)
        if starting.exists():
            move(run_id=run_id, target=RunStatus.RUNNING, actor="fleet", now=now)
    announced = [*(["fleet"] if is_news else []), *(["episodes"] if report.episodes else [])]
    if announced:
        announce(run_id, *announced)
    return True


def _has_news(fleet: Fleet, stored: Sequence[FleetWorker], report: wire.FleetReport) -> bool:
    """Return whether a report changes more than counters, which live pages poll."""
    of_worker = attrgetter(*_SHOWN_AT_ONCE)
    reported = {one.index for one in report.workers}
    # Workers of a fleet that was scaled down are stored as stopped, and not reported any more.
    before = [one for one in stored if one.state != "stopped" or one.index in reported]
    return (
        fleet.observed_at is None
        or bool(report.events)
        or (fleet.observed, fleet.reason) != (report.state, report.reason)
        or {of_worker(one) for one in before} != {of_worker(one) for one in report.workers}
    )


def _store_workers(
    fleet: Fleet,
    stored: Sequence[FleetWorker],
    workers: Sequence[wire.WorkerReport],
    *,
    now: datetime,
) -> int:
    """Store the workers and their slots; return the env steps since the last report.

    `stored` are the workers of earlier reports.
    """
    before = {worker.index: (worker.incarnation, worker.env_steps) for worker in stored}
    steps_before = {
        worker.index: (
            worker.incarnation,
            Steps(worker.announced_step, worker.staged_step, worker.active_step),
        )
        for worker in stored
    }
    record_weight_syncs(fleet, workers, steps_before, now=now)
    new = [
        worker
        for worker in workers
        if worker.incarnation != NEVER_SPAWNED
        and before.get(worker.index, ("", 0))[0] != worker.incarnation
    ]
    start_attempts(fleet, new, now=now)
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
    # Workers absent from the report have stopped: the fleet was scaled down.
    absent = FleetWorker.objects.filter(fleet=fleet).exclude(
        index__in=[row["index"] for row in rows]
    )
    absent = absent.exclude(state="stopped")
    absent_ids = list(absent.values_list("pk", flat=True))
    if absent_ids:
        # The cordon of a removed index ends: a later worker of that index is another worker.
        absent.update(
            state="stopped",
            env_steps_per_second=0.0,
            to_send=0,
            outstanding=0,
            is_cordoned=False,
            cordoned_at=None,
        )
        EnvSlot.objects.filter(worker__in=absent_ids).update(state="stopped", pid=None)
    return steps


def _store_episodes(fleet: Fleet, windows: Iterable[wire.EpisodeWindow], *, now: datetime) -> None:
    served_steps = Run.objects.values_list("served_steps", flat=True).get(pk=fleet.run_id)
    rows = []
    recent: list[float] = fleet.recent_returns
    for window in windows:
        if window.mode == "train":
            recent = [*recent, *window.returns][-RECENT_RETURNS:]
        rows.append(
            {
                **msgspec.structs.asdict(window),
                "run_id": fleet.run_id,
                "at": now,
                "env_steps_total": fleet.env_steps_total,
                "served_steps": served_steps,
                "recent_return_mean": sum(recent) / len(recent) if recent else None,
            }
        )
    fleet.recent_returns = recent
    store_rows(EpisodeWindow, rows)


def _store_events(run_id: int, events: Sequence[wire.FleetEvent], *, now: datetime) -> None:
    """Store events; refused fragments also count as refused pushes of the run."""
    refused: list[tuple[int, RefusedPush]] = []
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
        if event.kind != FRAGMENT_REFUSED:
            continue
        given = event.details.get("fragments")
        fragments = given if isinstance(given, int) and given > 0 else 1
        refusal = RefusedPush(
            run=run_id,
            groups=fragments,
            groups_by_env={},
            reason=str(event.details.get("reason", "other"))[:60],
            message=str(event.details.get("error", event.message)),
            at=now,
            pushes=fragments,
        )
        refused.append((run_id, refusal))
    count_for_runs(refused)
