"""Queries for the data flow through a run, and its diagnosis."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from statistics import median
from typing import Any, Final

from django.conf import settings
from django.db.models import F, Max, QuerySet, Sum

from buffer.batches.queries.queues import queue_depth
from buffer.batches.queries.rates import Rates, TrainerPace, rates_of, trainer_pace
from buffer.inspect.queries.group_statistics import groups_without_gradient
from buffer.items.queries import arrival_drops
from rolldeck.wire import StageTiming
from rollouts.control.models import EnvSlot, Fleet, FleetWorker, WeightsDelivery, WorkerAttempt
from rollouts.control.queries.fleets import last_reports, outage_of_run
from rollouts.control.rules import UNKNOWN_AFTER
from rollouts.curriculum.models import Lesson
from rollouts.diagnosis.models import RunDiagnosis
from rollouts.diagnosis.rules import flow
from rollouts.diagnosis.rules.causes import diagnose
from rollouts.diagnosis.rules.diagnosis import LATE_SECONDS, LONG_SECONDS, Diagnosis
from rollouts.diagnosis.rules.problems import CRASH_MINUTES, causes
from rollouts.diagnosis.schemas import BatchTimes, Cause, Pipeline, PipelineDiagnosis
from rollouts.fleet.process.spans import mean_shares, timing_of
from runs.alerts.queries.conditions import refused_environments
from runs.deployment.queries import jobs_health
from runs.events.models import RunEvent
from runs.lifecycle.models import Environment, PolicyVersion, Run, Trainer
from runs.lifecycle.rules import NO_POLICY_STEP, SILENT_AFTER, RunStatus
from runs.lifecycle.services.registry import waiting_environments
from runs.weights.queries import acting_step, newest_command
from web.rules.amounts import duration, percent

MINUTE: Final = timedelta(minutes=1)
_LOST_SLOTS: Final = ("slot_restarted", "slot_failed")
ENVIRONMENTS_AT_MOST: Final = 5
"""Maximum number of environments named in a diagnosis."""
VERSIONS_AT_MOST: Final = 1000
"""Maximum number of versions counted; larger differences look the same."""
EVENT_MINUTES: Final = 2
"""Minutes for which a failed generation counts. A run that fails once in a longer time changes its
diagnosis at most once a minute.
"""
FIRST_REPORT_SECONDS: Final = 90.0
"""Seconds from a manager's launch within which it must report."""
FAILURES_AT_MOST: Final = 100
"""Maximum number of crashes, and of failed generations, that are counted."""
_COMING: Final = frozenset({"starting", "respawning"})
_WAITS: Final = "waiting"
"""Beginning of the reason of a worker that waits as intended."""
_CRASHES: Final = ("worker_respawned", "worker_failed")


def pipeline_of(run: Run, *, now: datetime) -> Pipeline:
    """Return the data flow of the last minute, from a bounded number of rows."""
    rates, pace, facts = _measure(run, now=now)
    return Pipeline(
        unit="sequences" if run.takes_groups else "fragments",
        workers=facts.workers,
        stages=flow.stages(facts),
        diagnosis=_shown(run, *_judge(run, facts)),
        batches=BatchTimes(
            in_transit=_timing(rates.delivery_seconds), with_trainer=_timing(rates.train_seconds)
        ),
        arriving=facts.arriving,
        handed_out=facts.handed_out,
        queued=facts.queued,
        pause_above=facts.pause_above,
        batch_size=facts.batch_size,
        age_seconds=facts.age_seconds,
        age_versions=None if pace is None else pace.age_versions,
        shares=dict(facts.shares),
    )


def diagnosis_of(run_id: int, *, now: datetime) -> PipelineDiagnosis:
    """Return the diagnosis of a run, equal to that of its pipeline."""
    run = Run.objects.get(pk=run_id)
    return _shown(run, *judge(run, now=now))


def diagnoses(run_ids: Sequence[int], *, now: datetime) -> dict[int, PipelineDiagnosis]:
    """Return the diagnoses of several runs; deleted runs are omitted."""
    runs = Run.objects.filter(pk__in=run_ids)
    return {run.pk: _shown(run, *judge(run, now=now)) for run in runs}


def judge(run: Run, *, now: datetime) -> tuple[list[Diagnosis], RunDiagnosis | None]:
    """Return the causes that harm or limit a run, and its last record."""
    return _judge(run, facts_of(run, now=now))


def facts_of(run: Run, *, now: datetime) -> flow.Facts:
    """Return the measurements of a run's last minute."""
    return _measure(run, now=now)[2]


def _judge(run: Run, facts: flow.Facts) -> tuple[list[Diagnosis], RunDiagnosis | None]:
    recorded = RunDiagnosis.objects.filter(run=run).first()
    return diagnose(facts, previous=recorded.causes if recorded else ()), recorded


def _shown(
    run: Run, found: Sequence[Diagnosis], recorded: RunDiagnosis | None
) -> PipelineDiagnosis:
    since = recorded.causes if recorded else {}
    first, *further = [
        {name: getattr(cause, name) for name in ("kind", "summary", "stage", "evidence", "change")}
        | {"since": datetime.fromisoformat(since[cause.key]) if cause.key in since else None}
        for cause in found
    ]
    return PipelineDiagnosis(
        **first, further=[Cause(**fields) for fields in further], run_status=run.status
    )


def _measure(run: Run, *, now: datetime) -> tuple[Rates, TrainerPace | None, flow.Facts]:
    """Return the measurements since the last change of the run's status, at most a minute."""
    since = run.status_changed_at
    rates = rates_of(run, since=since, now=now)
    pace = trainer_pace(run.pk, since=since, now=now)
    depth = queue_depth(run.pk)
    jobs = jobs_health(now=now)
    drops = arrival_drops(now=now, run_id=run.pk) if run.takes_groups else []
    refused_weights = None
    if run.status in {RunStatus.QUEUED, RunStatus.STARTING}:
        events = RunEvent.objects.filter(run=run, kind="weights_refused", at__gte=since)
        refused_weights = events.order_by("-id").values_list("message", flat=True).first()
    status_seconds = (now - since).total_seconds()
    facts = flow.Facts(
        kind=run.kind,  # type: ignore[arg-type]
        status="stopped" if run.archived_at else run.status,
        reason=run.status_reason,
        is_probed=outage_of_run(run) is not None,
        status_seconds=status_seconds,
        data_seconds=_least(status_seconds, _seconds_since(rates.arrived_at, now=now)),
        lease_seconds=_least(status_seconds, rates.since_lease_seconds),
        stalled_seconds=settings.ROLLDECK_STALLED_SECONDS,
        refused_weights=refused_weights or "",
        jobs_problem=jobs.problem,
        jobs_evidence=jobs.evidence if jobs.problem else (),
        unit="sequences" if run.takes_groups else "fragments",
        run=run.name,
        **_refused(run, now=now),
        arrival_drops=drops[0].words if drops else "",
        arrival_remedy=drops[0].remedy if drops else "",
        **_without_gradient(run, now=now),
        waiting_environments=waiting_environments(run, now=now),
        arriving=rates.arriving,
        handed_out=rates.handed_out,
        batches_per_second=rates.batches,
        queued=depth.queued_sequences,
        pause_above=depth.threshold or None,
        is_full=depth.paused and not run.has_fleet,
        is_limited=depth.admission_remaining <= 0 and run.has_fleet,
        max_staleness=run.max_staleness,
        max_age_seconds=run.max_age_seconds,
        batch_size=depth.batch_size,
        trainer_waits=None if pace is None else pace.waiting_share,
        train_seconds=_mean(rates.train_seconds),
        holding_seconds=rates.holding_seconds,
        since_lease_seconds=rates.since_lease_seconds,
        fetched_again=rates.fetched_again,
        stale_share=rates.stale_share,
        delivery_seconds=_mean(rates.delivery_seconds),
        age_seconds=None if pace is None else pace.age_seconds,
        **(
            _of_fleet(run, now=now)
            if run.has_fleet
            else _last_seen(run, arrived_at=rates.arrived_at, now=now)
        ),
    )
    return rates, pace, facts


def _last_seen(run: Run, *, arrived_at: datetime | None, now: datetime) -> dict[str, Any]:
    """Return which environments and trainers of an outside run have made calls recently."""
    seen = Environment.objects.filter(run=run, connected=True, last_seen_at__gte=now - SILENT_AFTER)
    asking = list(seen.order_by("env_id").values_list("wandb_name", "registered_at", "held_at"))
    idle = [
        (name, (now - max(registered_at, arrived_at or registered_at)).total_seconds())
        for name, registered_at, held_at in asking
        if held_at is None
    ]
    return {
        "environments": len(asking),
        "idle_environments": [
            f"{name} asks for its status, but has pushed nothing for {duration(seconds)}"
            for name, seconds in idle[:ENVIRONMENTS_AT_MOST]
            if seconds >= MINUTE.total_seconds()
        ],
        "is_asked": run.trainer_started_at is not None
        and Trainer.objects.filter(run=run, last_seen_at__gte=now - MINUTE).exists(),
    }


def _without_gradient(run: Run, *, now: datetime) -> dict[str, Any]:
    """Return the facts about the newest groups, if no trainer can learn from any of them."""
    found = groups_without_gradient(run.pk, now=now) if run.takes_groups else None
    if found is None:
        return {}
    scores = f"{found.lowest:.3g}"
    if found.highest != found.lowest:
        scores += f" to {found.highest:.3g}"
    return {
        "groups_without_gradient": found.groups,
        "gradient_evidence": [
            f"{found.equal:,} of them have equal scores within the group",
            f"their mean scores are {scores}",
        ],
    }


def _refused(run: Run, *, now: datetime) -> dict[str, Any]:
    """Return the facts about environments whose pushes are refused."""
    found = refused_environments(now=now, run_id=run.pk)
    unit = "group" if run.takes_groups else "fragment"
    shown = found[:ENVIRONMENTS_AT_MOST]
    return {
        "refused": [
            f"{one.environment}: {one.lost(unit)} refused, most recently because of {one.message} "
            f"({one.reason})"
            for one in shown
        ],
        "refused_groups": sum(one.groups for one in found),
        "refusal_advice": list(dict.fromkeys(one.advice for one in shown)),
        "refusal_alerts": [
            flow.AlertText(
                f"{run.name} refuses pushes of {one.environment}: {one.message}. {one.advice}",
                one.environment,
                {"groups": one.groups, "pushes": one.pushes, "reason": one.reason},
            )
            for one in found
        ],
    }


def _of_fleet(run: Run, *, now: datetime) -> dict[str, Any]:
    """Return the reports of a fleet and its workers; empty for a silent fleet."""
    fleet = Fleet.objects.filter(run=run).first() or Fleet(run=run)
    reports = last_reports(fleet)
    columns = (
        *("state", "heartbeat_at", "shares", "env_steps_per_second", "to_send", "active_step"),
        *("index", "reason"),
    )
    rows = list(FleetWorker.objects.filter(fleet__run=run).values_list(*columns))
    running = [row for row in rows if row[0] == "running" and now - row[1] <= UNKNOWN_AFTER]
    blocked = [row[7] for row in running if row[7] and not row[7].startswith(_WAITS)]
    if reports.reported_at is not None:
        is_late = now - reports.reported_at > timedelta(seconds=LATE_SECONDS)
    else:
        launched = _seconds_since(reports.launched_at, now=now)
        is_late = launched is not None and launched > FIRST_REPORT_SECONDS
    slowest = None
    if len(running) > 1:
        (rate, index), *others = sorted((row[3], row[6]) for row in running)
        median_of_others = median(other for other, _ in others)
        slowest = flow.SlowestWorker(index=index, rate=rate, median_of_others=median_of_others)
    return {
        "fleet": reports.state(now=now),
        "fleet_reason": reports.doubt(now=now) or fleet.reason,
        "silent_seconds": _seconds_since(reports.confirmed_at, now=now),
        "is_silence_due": reports.has_manager and is_late,
        "workers": len(running),
        "workers_wanted": run.num_workers or 0,
        "workers_coming": sum(row[0] in _COMING for row in rows),
        "workers_down": sum(row[0] == "failed" for row in rows),
        "down_workers": _down_workers(fleet, [(row[6], row[0]) for row in rows], now=now),
        "workers_blocked": len(blocked),
        "block_reason": blocked[0] if blocked else "",
        "slowest_worker": slowest,
        **_failures(run, now=now),
        "shares": mean_shares(row[2] for row in running),
        "work_per_second": sum(row[3] for row in running) if running else None,
        "to_send": sum(row[4] for row in running),
        "workers_without_weights": sum(row[5] <= NO_POLICY_STEP for row in running),
        **_of_weights(run, oldest=min((row[5] for row in running), default=None), now=now),
    }


def _down_workers(fleet: Fleet, states: Sequence[tuple[int, str]], *, now: datetime) -> list[str]:
    """Return the workers that failed, or did not restart within :data:`LONG_SECONDS`.

    `states` are index and state of each worker.
    """
    restarting = [index for index, state in states if state == "respawning"]
    recent = (
        WorkerAttempt.objects.filter(
            fleet=fleet, worker__in=restarting, ended_at__gt=now - timedelta(seconds=LONG_SECONDS)
        ).values_list("worker", flat=True)
        if restarting
        else ()
    )
    words = {"failed": "has failed", "respawning": "does not restart"}
    return [
        f"worker {index} {words[state]}"
        for index, state in sorted(states)
        if state in words and index not in set(recent)
    ]


def _failures(run: Run, *, now: datetime) -> dict[str, Any]:
    """Return the numbers of recent failures of a fleet, each with its newest error."""
    crashes = _messages(run, _CRASHES, since=now - timedelta(minutes=CRASH_MINUTES))
    failures = (
        _messages(run, ["inference_failed"], since=now - timedelta(minutes=EVENT_MINUTES))
        if run.kind == "language"
        else []
    )
    loops = _messages(run, ["loop_crashed"], since=now - timedelta(minutes=EVENT_MINUTES))
    return {
        "crashes": len(crashes),
        "crash_reason": crashes[0] if crashes else "",
        "inference_failures": len(failures),
        "inference_error": failures[0] if failures else "",
        "loop_crashes": len(loops),
        "loop_error": loops[0] if loops else "",
        **(_equal_rewards(run) if run.kind == "language" else _lost_slots(run, now=now)),
    }


def _lost_slots(run: Run, *, now: datetime) -> dict[str, Any]:
    """Return the losses of env slots, and their causes."""
    events = _events(run, _LOST_SLOTS, since=now - timedelta(minutes=EVENT_MINUTES))
    columns = events.values_list("kind", "message", "details__slots")[:FAILURES_AT_MOST]
    lost = [
        (kind, message, len(slots) if isinstance(slots, list) else 1)
        for kind, message, slots in columns
    ]
    if not lost:
        return {}
    environment = run.config.get("environment") or {}
    return {
        "env_slots": EnvSlot.objects.filter(worker__fleet__run=run).count(),
        "slots_lost": sum(slots for _, _, slots in lost),
        "slots_given_up": sum(slots for kind, _, slots in lost if kind == "slot_failed"),
        "env_errors": causes(
            ((message, slots) for _, message, slots in lost),
            environment=environment.get("spec", ""),
        ),
    }


def _equal_rewards(run: Run) -> dict[str, Any]:
    """Return the groups of equal rewards of a run that drops them."""
    language = run.config.get("language") or {}
    if language.get("keeps_zero_variance") and not run.drop_zero_variance:
        return {}
    lessons = Lesson.objects.filter(run=run, groups__gt=0)
    totals = lessons.aggregate(
        groups=Sum("groups", default=0),
        equal_groups=Sum("zero_variance_groups", default=0),
        answers=Sum("samples", default=0),
    )
    columns = ("name", "zero_variance_groups", "groups", "success")
    most_first = lessons.filter(zero_variance_groups__gt=0).order_by("-zero_variance_groups")
    return totals | {
        "equal_lessons": [
            f"lesson {name}: {equal:,} of {groups:,} groups with equal rewards, "
            f"success {percent(success)}"
            for name, equal, groups, success in most_first.values_list(*columns)[
                :ENVIRONMENTS_AT_MOST
            ]
        ]
    }


def _messages(run: Run, kinds: Sequence[str], *, since: datetime) -> list[str]:
    """Return the messages of recent events since the last start, newest first."""
    newest = _events(run, kinds, since=since).values_list("message", flat=True)
    return list(newest[:FAILURES_AT_MOST])


def _events(run: Run, kinds: Sequence[str], *, since: datetime) -> QuerySet[RunEvent]:
    since = since if run.started_at is None else max(since, run.started_at)
    return RunEvent.objects.filter(run=run, kind__in=kinds, at__gte=since).order_by("-id")


def _of_weights(run: Run, *, oldest: int | None, now: datetime) -> dict[str, Any]:
    """Return the age of the run's weights, and the lag of the slowest worker.

    `oldest` is the step of the oldest version in use by a running worker; None if none is running.
    """
    versions = PolicyVersion.objects.filter(run=run, epoch=run.epoch)
    newest = list(versions.order_by("-step").values_list("step", "published_at")[:2])
    if not newest:
        return {}
    (version, published_at), *earlier = newest
    # The longest time from the notification of a worker to its use of a version.
    used = WeightsDelivery.objects.filter(
        fleet__run=run, epoch=run.epoch, active_at__gte=now - MINUTE, announced_at__isnull=False
    )
    longest = used.aggregate(longest=Max(F("active_at") - F("announced_at")))["longest"]
    known = {
        "version": version,
        "version_age_seconds": _seconds_since(published_at, now=now),
        "version_interval_seconds": _seconds_since(earlier[0][1], now=published_at)
        if earlier
        else None,
        "load_seconds": None if longest is None else float(longest.total_seconds()),
    }
    # A worker without any weights reports that it waits for them.
    expected = acting_step(run, newest_command(run.pk))
    if oldest is None or oldest <= NO_POLICY_STEP or oldest >= expected:
        return known
    # With a pinned version no worker counts as behind.
    versions = versions.filter(step__lte=expected)
    lacked = versions.filter(step__gt=oldest).order_by("step").values_list("published_at").first()
    return known | {
        "versions_behind": versions.filter(step__gt=oldest)[:VERSIONS_AT_MOST].count(),
        "behind_seconds": _seconds_since(lacked[0] if lacked else None, now=now),
    }


def _seconds_since(at: datetime | None, *, now: datetime) -> float | None:
    return None if at is None else max(0.0, (now - at).total_seconds())


def _least(*seconds: float | None) -> float:
    return min(each for each in seconds if each is not None)


def _mean(seconds: Sequence[float]) -> float | None:
    return sum(seconds) / len(seconds) if seconds else None


def _timing(seconds: Sequence[float]) -> StageTiming | None:
    return timing_of(seconds) if seconds else None
