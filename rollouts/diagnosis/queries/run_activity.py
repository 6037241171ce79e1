"""Fleet summaries of many runs for run lists."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import connection
from django.db.models import Case, F, FloatField, Func, OuterRef, Q, Subquery, When

from rollouts.control.models import Fleet
from rollouts.control.rules import LastReports
from rollouts.metrics.models import MeasureCursor
from rollouts.metrics.rules import OWN_PREFIX
from runs.lifecycle.models import RunKind

RECENT_RETURNS: Final = 20
POINTS: Final = 40
_REPORT_COLUMNS: Final = ("observed", "has_manager", "reported_at", "heard_at", "launched_at")
_FLEETS: Final = """
    SELECT f.run_id, f.recent_returns[cardinality(f.recent_returns) - 19 :],
        (SELECT COUNT(*) FROM rollouts_fleetworker w WHERE w.fleet_id = f.id), f.reason,
        f.observed, f.incarnation <> '', f.observed_at, f.heard_at, f.launched_at
    FROM rollouts_fleet f WHERE f.run_id = ANY(%s)"""
_MEAN_RETURN: Final = "(SELECT avg(one) FROM unnest(%(expressions)s) AS one)"
_SCORES: Final = """
    SELECT s.run_id, ARRAY(
        SELECT m.value FROM rollouts_metricsample m
        WHERE m.series_id = s.id ORDER BY m.id DESC LIMIT %s
    ) FROM rollouts_metricseries s WHERE s.run_id = ANY(%s) AND s.name = %s"""
_RETURNS: Final = """
    SELECT r.id, ARRAY(
        SELECT e.recent_return_mean FROM rollouts_episodewindow e
        WHERE e.run_id = r.id AND e.recent_return_mean IS NOT NULL
        ORDER BY e.id DESC LIMIT %s
    ) FROM unnest(%s::bigint[]) AS r(id)"""

FRESH: Final = timedelta(minutes=1)
"""Maximum age of a rate without a newer one."""


def ingest_activity(run_ids: Sequence[int], *, now: datetime) -> dict[int, dict[str, Any]]:
    """Return the ingest rate and staleness of each run, with their time of measurement.

    For an outside run also its mean scores, as in the series ``rolldeck/reward/mean``. An idle run
    is not measured, and its last rate is 0. A run whose last rate is positive but old was not
    measured as scheduled, so its rate is unknown.
    """
    rows = MeasureCursor.objects.filter(run_id__in=run_ids, measured_at__isnull=False)
    columns = ("run_id", "measured_at", "accepted_per_second", "staleness_p50", "reward_mean")
    found: dict[int, dict[str, Any]] = {}
    scored: dict[int, dict[str, Any]] = {}
    for run_id, at, rate, staleness, score, kind in rows.values_list(*columns, "run__kind"):
        activity = found[run_id] = {"measured_at": at, "staleness_p50": staleness}
        if rate == 0 or at > now - FRESH:
            activity["accepted_per_second"] = rate
        if kind == RunKind.OUTSIDE and score is not None:
            scored[run_id] = activity
            activity |= {"return_mean": score, "return_source": "scores"}
    if scored:
        with connection.cursor() as cursor:
            cursor.execute(_SCORES, [POINTS, list(scored), OWN_PREFIX + "reward/mean"])
            for run_id, values in cursor.fetchall():
                scored[run_id]["returns"] = values[::-1]
    return found


def return_for_lists(now: datetime) -> Case:  # noqa: ARG001 never expires: it describes the last data
    """Return the sort expression for the return, or mean score, in run lists."""
    fleet = Fleet.objects.filter(run=OuterRef("pk"))
    mean = Func(F("recent_returns"), template=_MEAN_RETURN, output_field=FloatField())
    return Case(
        When(kind=RunKind.OUTSIDE, then=F("measure_cursor__reward_mean")),
        default=Subquery(fleet.annotate(mean=mean).values("mean")),
        output_field=FloatField(),
    )


def rate_for_lists(now: datetime) -> Case:
    """Return the sort expression for the rate in run lists."""
    is_known = Q(measure_cursor__accepted_per_second=0) | Q(
        measure_cursor__measured_at__gt=now - FRESH
    )
    return Case(
        When(is_known, then=F("measure_cursor__accepted_per_second")), output_field=FloatField()
    )


def staleness_for_lists(now: datetime) -> F:  # noqa: ARG001 never expires: it describes the last served data
    """Return the sort expression for the staleness in run lists."""
    return F("measure_cursor__staleness_p50")


def fleet_activity(run_ids: Sequence[int], *, now: datetime) -> dict[int, dict[str, Any]]:
    """Return workers, the last heartbeat and returns of each run that has a fleet."""
    found: dict[int, dict[str, Any]] = {}
    with connection.cursor() as cursor:
        cursor.execute(_FLEETS, [list(run_ids)])
        for run_id, returns, workers, reason, *report_columns in cursor.fetchall():
            reports = LastReports(**dict(zip(_REPORT_COLUMNS, report_columns, strict=True)))
            last = (returns or [])[-RECENT_RETURNS:]
            found[run_id] = {
                "workers": workers,
                "observed_at": reports.confirmed_at,
                "fleet_reason": reports.doubt(now=now) or reason,
                "return_mean": sum(last) / len(last) if last else None,
                "return_source": "episodes" if last else "",
            }
        cursor.execute(_RETURNS, [POINTS, list(found)])
        for run_id, values in cursor.fetchall():
            found[run_id]["returns"] = values[::-1]
    return found
