"""Alert conditions: silent or understaffed fleets, and stalled or regressed lessons."""

from collections import defaultdict
from datetime import datetime, timedelta
from itertools import groupby
from typing import Final

from django.db import connection
from django.db.models import Exists, OuterRef, Q

from rollouts.control.models.attempts import WorkerAttempt
from rollouts.control.models.fleets import Fleet, FleetWorker
from rollouts.curriculum.models import Lesson
from rollouts.lessons.rules.evaluation import has_stalled
from rollouts.lessons.rules.lessons import LessonStatus
from rollouts.lessons.rules.performance import Counts
from runs.alerts.rules.alerts import SEEN_AT_MOST, AlertKind, Condition
from runs.lifecycle.rules.lifecycle import ACTIVE, RunStatus

SILENT_AFTER: Final = timedelta(seconds=30)
FIRST_REPORT_WITHIN: Final = timedelta(seconds=90)
"""Time from a manager's launch within which it must report."""
BACK_WITHIN: Final = timedelta(seconds=60)
"""Time within which a crashed worker must be running again."""
NAMED_AT_MOST: Final = 3
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
_WORDS: Final = {"failed": "has failed", "respawning": "does not restart"}
_SPEAKING: Final = (RunStatus.RUNNING, RunStatus.PAUSED, RunStatus.DRAINING)


def silent_fleets(now: datetime) -> list[Condition]:
    """Return the fleets that should report every second but have been silent too long."""
    late = Q(observed_at__lt=now - SILENT_AFTER) | Q(
        observed_at=None, launched_at__lt=now - FIRST_REPORT_WITHIN
    )
    silent = Fleet.objects.filter(late, run__archived_at=None, run__status__in=_SPEAKING)
    rows = silent.exclude(incarnation="").order_by("-run_id").values_list("run_id", "run__name")
    seconds = int(SILENT_AFTER.total_seconds())
    return [
        Condition(
            kind=AlertKind.FLEET_SILENT,
            run_id=run_id,
            message=f"the fleet of {name} has not reported for more than {seconds} s",
        )
        for run_id, name in rows[:SEEN_AT_MOST]
    ]


def fleets_short_of_workers(now: datetime) -> list[Condition]:
    """Return the reporting fleets with failed workers, or with workers that do not restart."""
    died_lately = WorkerAttempt.objects.filter(
        fleet=OuterRef("fleet"), worker=OuterRef("index"), ended_at__gt=now - BACK_WITHIN
    )
    down = FleetWorker.objects.filter(
        Q(state="failed") | Q(state="respawning") & ~Exists(died_lately),
        fleet__run__archived_at=None,
        fleet__run__status__in=[RunStatus.RUNNING, RunStatus.DRAINING],
        fleet__observed_at__gt=now - SILENT_AFTER,
    )
    rows = down.order_by("fleet__run_id", "index").values_list(
        "fleet__run_id", "fleet__run__name", "index", "state"
    )
    by_run: dict[tuple[int, str], list[str]] = defaultdict(list)
    for run_id, name, index, state in rows[:SEEN_AT_MOST]:
        by_run[run_id, name].append(f"worker {index} {_WORDS[state]}")
    return [
        Condition(
            kind=AlertKind.WORKERS_DOWN,
            run_id=run_id,
            message=f"{_count(name, len(workers))} down: {_named(workers)}",
            details={"workers": workers},
        )
        for (run_id, name), workers in by_run.items()
    ]


def _count(run: str, workers: int) -> str:
    return f"one worker of {run} is" if workers == 1 else f"{workers} workers of {run} are"


def _named(workers: list[str]) -> str:
    left = len(workers) - NAMED_AT_MOST
    named = ", ".join(workers[:NAMED_AT_MOST])
    return f"{named} and {left} more" if left > 0 else named


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
