"""Alert conditions of runs: diagnosis, queues, leases, lessons, the disk, and custom rules."""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import groupby, islice
from operator import itemgetter
from typing import Any, Final, get_args

from django.conf import settings
from django.db import connection
from django.db.models import Count, Max

from buffer.items.models import Batch
from buffer.items.rules.states import BatchState, ItemKind
from rollouts.control.models import Outage
from rollouts.curriculum.models import Lesson
from rollouts.diagnosis.models import RunDiagnosis
from rollouts.diagnosis.rules.breaches import breach_start
from rollouts.diagnosis.rules.diagnosis import Kind
from rollouts.lessons.rules.evaluation import has_stalled
from rollouts.lessons.rules.lessons import Counts, LessonStatus
from rollouts.metrics.models import MetricChunk, MetricSeries
from rollouts.metrics.queries.metrics import EPOCH, datetime_of, newest_samples
from rollouts.metrics.queries.series import SeriesRange, blocks_of_series
from rollouts.metrics.rules import condensed, written
from runs.alerts.models import AlertRule
from runs.alerts.queries.conditions import enabled_rules, uncleared_alerts, watched_runs
from runs.alerts.rules import SEEN_AT_MOST, AlertKind, Condition, Limit, RuleAction, Severity
from runs.lifecycle.rules import ACTIVE, RunStatus
from web.disk_space import free_disk_bytes

# `jobs_down` concerns the server; it is also evaluated by the web processes.
DIAGNOSED: Final = {
    kind for kind in AlertKind if kind in get_args(Kind) and kind is not AlertKind.JOBS_DOWN
}
"""Kinds of alerts that the diagnosis of a run raises."""
EVALUATIONS_TO_STALL: Final = 8
"""Number of newest evaluations since a lesson became active; the halves are compared."""
# The newest evaluations of each active lesson are read from one end of an index.
_EVALUATED: Final = """
    SELECT l.run_id, r.name, l.name, e.round, (e.figures ->> 'successes')::bigint,
        (e.figures ->> 'problems')::bigint
    FROM rollouts_lesson l JOIN runs_run r ON r.id = l.run_id CROSS JOIN LATERAL (
        SELECT round, figures FROM rollouts_evaluation
        WHERE run_id = l.run_id AND lesson = l.name AND state = 'done'
            AND (l.changed_at IS NULL OR finished_at > l.changed_at)
        ORDER BY round DESC LIMIT %s) e
    WHERE l.status = %s AND r.archived_at IS NULL AND r.status = %s
    ORDER BY l.run_id DESC, l.position, e.round LIMIT %s"""
# Counts are sums of few rows.
_FULL: Final = """
    SELECT r.id, r.name, r.kind, t.items, t.bytes
    FROM runs_run r, LATERAL (
        SELECT SUM(items) AS items, SUM(size_bytes) AS bytes FROM buffer_tally
        WHERE run_id = r.id AND state IN ('queued', 'waiting', 'leased', 'quarantined')) t
    WHERE r.archived_at IS NULL AND r.status = ANY(%s)
        AND (t.bytes >= %s OR t.items >= CASE r.kind WHEN 'fleet' THEN %s ELSE %s END)
    ORDER BY r.id DESC LIMIT %s"""
ANY_TEXT: Final = "*"
"""Part of a rule's metric that stands for any text, also for none."""
SERIES_AT_MOST: Final = 2_000
"""Maximum number of series, of the newest runs, in which a rule with such a part is evaluated."""
NAMED: Final = 3
"""Maximum number of metrics that a message names."""
RUNS_AT_MOST: Final = 1_000
"""Maximum number of runs, the newest, in which one rule is evaluated."""
READ_AT_ONCE: Final = 50
"""Number of series whose history is read together."""
FINENESS: Final = 2_000


def diagnosed(_now: datetime) -> list[Condition]:
    """Return the due alerts of the recorded diagnoses of active runs."""
    recorded = RunDiagnosis.objects.filter(run__archived_at=None, run__status__in=ACTIVE)
    rows = recorded.exclude(alerts=[]).order_by("-run_id").values_list("run_id", "alerts")
    found = [
        Condition(
            kind=AlertKind(alert["kind"]),
            run_id=run_id,
            subject=alert["subject"],
            message=alert["message"],
            details=alert["details"],
        )
        for run_id, alerts in rows[:SEEN_AT_MOST]
        for alert in alerts
    ]
    return found[:SEEN_AT_MOST]


def full_queues(_now: datetime) -> list[Condition]:
    """Return the active runs at their limits, which refuse pushes."""
    most = {
        ItemKind.GROUPS: settings.ROLLDECK_MAX_QUEUED_GROUPS,
        ItemKind.FRAGMENTS: settings.ROLLDECK_MAX_QUEUED_FRAGMENTS,
    }
    limits = [settings.ROLLDECK_MAX_RUN_BYTES, most[ItemKind.FRAGMENTS], most[ItemKind.GROUPS]]
    with connection.cursor() as cursor:
        cursor.execute(_FULL, [sorted(ACTIVE), *limits, SEEN_AT_MOST])
        rows = cursor.fetchall()
    found = []
    for run_id, name, run_kind, items, _ in rows:
        kind = ItemKind.FRAGMENTS if run_kind == "fleet" else ItemKind.GROUPS
        is_count = items >= most[kind]
        held = f"{most[kind]:,} {kind}" if is_count else f"{settings.ROLLDECK_MAX_RUN_BYTES:,} B"
        message = f"{name} is at its limit of {held}: pushes are refused"
        found.append(Condition(kind=AlertKind.QUEUE_FULL, run_id=run_id, message=message))
    return found


def quarantined_batches(_now: datetime) -> list[Condition]:
    """Return the quarantined batches of runs that are not archived."""
    quarantined = Batch.objects.filter(state=BatchState.QUARANTINED, run__archived_at=None)
    waiting = quarantined.order_by("-leased_at")
    rows = waiting.values_list("pk", "run_id", "run__name", "ordinal", "items", "lease_expiries")
    return [
        Condition(
            kind=AlertKind.BATCH_QUARANTINED,
            run_id=run_id,
            subject=str(batch),
            message=f"batch {ordinal} of {name} is quarantined: "
            f"its lease expired {lease_expiries} times",
            details={"batch": str(batch), "ordinal": ordinal, "items": items},
        )
        for batch, run_id, name, ordinal, items, lease_expiries in rows[:SEEN_AT_MOST]
    ]


def expired_leases(_now: datetime) -> list[Condition]:
    """Return the active runs with returned batches, which wait for the next trainer."""
    returned = Batch.objects.filter(state=BatchState.RETURNED, run__status__in=ACTIVE)
    rows: Any = returned.values_list("run_id", "run__name").annotate(Count("pk")).order_by("run_id")
    return [
        Condition(
            kind=AlertKind.LEASE_LAPSED,
            run_id=run_id,
            message=f"{number} batch{'' if number == 1 else 'es'} of {name} returned to the queue: "
            "the lease expired",
            details={"batches": number},
        )
        for run_id, name, number in rows[:SEEN_AT_MOST]
    ]


def low_disk(_now: datetime) -> list[Condition]:
    """Return a condition if free disk space is below twice the minimum."""
    least, free = settings.ROLLDECK_MIN_FREE_DISK_BYTES, free_disk_bytes()
    if free >= 2 * least:
        return []
    gigabytes = f"{least / 1e9:.1f} GB"
    if free < least:
        message = f"less than {gigabytes} of disk free: pushes, weights and archives are refused"
        return [Condition(kind=AlertKind.DISK_LOW, message=message)]
    message = (
        f"less than {2 * least / 1e9:.1f} GB of disk free; "
        f"pushes, weights and archives are refused below {gigabytes}"
    )
    return [Condition(kind=AlertKind.DISK_LOW, severity=Severity.WARNING, message=message)]


def open_outages(_now: datetime) -> list[Condition]:
    """Return the outages that pause a run or stop a lesson."""
    found = Outage.objects.filter(ended_at=None, run__archived_at=None).order_by("-pk")
    return [
        Condition(
            kind=AlertKind.OUTAGE,
            run_id=run_id,
            subject=lesson,
            message=f"{f'lesson {lesson} of {run} has stopped' if lesson else f'{run} is paused'}: "
            f"{reason}",
            details={"lesson": lesson, "cause": cause},
        )
        for run_id, run, lesson, reason, cause in found.values_list(
            "run_id", "run__name", "lesson", "reason", "cause"
        )[:SEEN_AT_MOST]
    ]


def stalled_lessons(_now: datetime) -> list[Condition]:
    """Return the active lessons of running runs whose evaluations do not improve."""
    most = EVALUATIONS_TO_STALL
    with connection.cursor() as cursor:
        states = [str(LessonStatus.ACTIVE), str(RunStatus.RUNNING)]
        cursor.execute(_EVALUATED, [most, *states, most * SEEN_AT_MOST])
        rows = cursor.fetchall()
    found = []
    for (run_id, run, lesson), results in groupby(rows, key=lambda row: row[:3]):
        counts = [Counts(*row[3:]) for row in results]
        if len(counts) == most and has_stalled(counts):
            condition = Condition(
                kind=AlertKind.LESSON_STALLED,
                run_id=run_id,
                subject=lesson,
                message=f"lesson {lesson} of {run} did not improve in its last {most} evaluations",
                details={"lesson": lesson},
            )
            found.append(condition)
    return found


def regressed_lessons(_now: datetime) -> list[Condition]:
    """Return the graduated lessons of active runs that are significantly worse than before."""
    worse = Lesson.objects.filter(
        has_regressed=True, run__archived_at=None, run__status__in=ACTIVE
    ).order_by("-run_id", "position")
    return [
        Condition(
            kind=AlertKind.LESSON_REGRESSED,
            run_id=run_id,
            subject=lesson,
            message=f"lesson {lesson} of {name} is worse than at graduation",
            details={"lesson": lesson},
        )
        for run_id, name, lesson in worse.values_list("run_id", "run__name", "name")[:SEEN_AT_MOST]
    ]


def rule_breaches(now: datetime) -> list[Condition]:
    """Return the present breaches of rules, one condition per rule and run.

    The metric of a rule may have ``*`` for any text: then one breach of several series is enough,
    and the message names those beyond the limit.

    A rule costs two queries, one that pauses runs three; the history of a series is read only if
    its newest sample is beyond the limit and the rule requires a duration.

    A rule that pauses runs raises alerts only for samples since the run was started or resumed.
    Its alerts stay open while their run is paused, unless the rule was changed since, and after a
    resumption while the breach lasts. So a resumed run is paused again only by a new breach.
    """
    found = (condition for rule in enabled_rules() for condition in _conditions(rule, now=now))
    return list(islice(found, SEEN_AT_MOST))


def _conditions(rule: AlertRule, *, now: datetime) -> Iterator[Condition]:
    pauses = rule.action == RuleAction.PAUSE
    raised = uncleared_alerts(rule) if pauses else []
    for alert in raised:
        is_paused = alert.run is not None and alert.run.status == RunStatus.PAUSED
        if is_paused and rule.changed_at <= alert.first_seen_at:
            yield Condition(
                kind=AlertKind.RULE,
                run_id=alert.run_id,
                subject=alert.subject,
                severity=Severity(alert.severity),
                message=alert.message,
                details=alert.details,
            )
    runs = watched_runs(rule, now=now).order_by("-pk").values("pk")[:RUNS_AT_MOST]
    series = MetricSeries.objects.filter(run_id__in=runs).order_by("-run_id", "name")
    if ANY_TEXT in rule.metric:
        pattern = ".*".join(re.escape(part) for part in rule.metric.split(ANY_TEXT))
        series = series.filter(name__regex=f"^{pattern}$")[:SERIES_AT_MOST]
    else:
        series = series.filter(name=rule.metric)
    columns = ("pk", "run_id", "run__name", "run__status_changed_at", "name")
    found = list(series.values_list(*columns))
    watched = [row[:4] for row in found]
    names = {row[0]: row[4] for row in found}
    newest = newest_samples([row[0] for row in watched])
    watched = [row for row in watched if row[0] in newest]
    wait = timedelta(seconds=rule.for_seconds)
    since: dict[int, datetime]
    if rule.limit.is_silence:
        # Paused runs are exempt: the time counts from the last resume.
        since = {pk: max(newest[pk].at, resumed_at) for pk, _, _, resumed_at in watched}
        since = {pk: at for pk, at in since.items() if now - at >= wait}
    else:
        beyond = [row[0] for row in watched if rule.limit.is_broken_by(newest[row[0]].value)]
        if rule.for_seconds:
            since = _since(beyond, rule.limit, now=now)
        else:
            since = {pk: newest[pk].at for pk in beyond}
        if pauses:
            known = {alert.run_id for alert in raised}
            since = {
                pk: since[pk]
                for pk, run_id, _, resumed_at in watched
                if pk in since
                and (
                    run_id in known
                    or (newest[pk].at >= resumed_at and now - max(since[pk], resumed_at) >= wait)
                )
            }
    for run_id, of_run in groupby(watched, key=itemgetter(1)):
        broken = [(pk, run) for pk, _, run, _ in of_run if pk in since]
        if broken:
            pk, run = broken[0]
            metrics = [names[pk] for pk, _ in broken]
            more = f" and {len(metrics) - NAMED} more" if len(metrics) > NAMED else ""
            yield Condition(
                kind=AlertKind.RULE,
                run_id=run_id,
                subject=str(rule.pk),
                severity=Severity(rule.severity),
                message=f"{', '.join(metrics[:NAMED])}{more} of {run} is {rule.limit.condition}",
                details={
                    "title": rule.name,
                    "runbook": rule.runbook,
                    "metric": metrics[0],
                    "threshold": rule.threshold,
                    "value": written(newest[pk].value),
                    "step": newest[pk].step,
                    "since": since[pk].isoformat(),
                },
                pause_actor=f"alert rule:{rule.name}" if pauses else "",
            )


def _since(series_ids: Sequence[int], limit: Limit, *, now: datetime) -> dict[int, datetime]:
    """Return the beginning of each sufficiently long breach by series."""
    found = {}
    must_begin = _micros(now - timedelta(seconds=limit.for_seconds))
    for at in range(0, len(series_ids), READ_AT_ONCE):
        some = series_ids[at : at + READ_AT_ONCE]
        # The interval includes the value at the beginning of the required duration.
        chunks = MetricChunk.objects.filter(series_id__in=some, time_min__lte=must_begin)
        starts = chunks.order_by().values("series_id").annotate(start=Max("time_min"))
        first = min((row["start"] for row in starts), default=0)
        chart_range = SeriesRange(axis="time", first=first, at_most=FINENESS)
        for series_id, blocks in blocks_of_series(some, chart_range).items():
            coarse = condensed(blocks, at_most=FINENESS).blocks
            began = breach_start(coarse, limit, until=_micros(now))
            if began is not None:
                found[series_id] = datetime_of(began)
    return found


def _micros(at: datetime) -> int:
    return (at - EPOCH) // timedelta(microseconds=1)
