"""Evaluation of custom alert rules."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Final, NamedTuple

from django.db.models import Max

from rollouts.diagnosis.rules.breaches import breach_start
from rollouts.metrics.models import MetricChunk, MetricSeries
from rollouts.metrics.queries.metrics import EPOCH, Sample, datetime_of, newest_samples
from rollouts.metrics.queries.series import SeriesRange, blocks_of_series
from rollouts.metrics.rules import condensed, written
from runs.alerts.models import AlertRule
from runs.alerts.queries import enabled_rules, watched_runs
from runs.alerts.rules import SEEN_AT_MOST, AlertKind, Condition, Limit, Severity

RUNS_AT_MOST: Final = 1_000
"""Maximum number of runs, the newest, in which one rule is evaluated."""
READ_AT_ONCE: Final = 50
"""Number of series whose history is read together."""
FINENESS: Final = 2_000


class _Watched(NamedTuple):
    """A series to which a rule applies."""

    series_id: int
    run_id: int
    run: str
    status_since: datetime
    newest: Sample


def rule_breaches(now: datetime) -> list[Condition]:
    """Return the present breaches of rules, one condition per rule and run.

    A rule costs two queries; the history of a series is read only if its newest sample is beyond
    the limit and the rule requires a duration.
    """
    found = (condition for rule in enabled_rules() for condition in _conditions(rule, now=now))
    return list(islice(found, SEEN_AT_MOST))


def _conditions(rule: AlertRule, *, now: datetime) -> Iterator[Condition]:
    if rule.limit.is_silence:
        yield from _silences(rule, now=now)
        return
    beyond = [one for one in _watched(rule, now=now) if rule.limit.is_broken_by(one.newest.value)]
    if rule.for_seconds == 0:
        since = {one.series_id: one.newest.at for one in beyond}
    else:
        since = _since([one.series_id for one in beyond], rule.limit, now=now)
    for one in beyond:
        if one.series_id in since:
            yield _condition(rule, one, since=since[one.series_id])


def _silences(rule: AlertRule, *, now: datetime) -> Iterator[Condition]:
    """Yield conditions for metrics that stopped arriving.

    Paused runs are exempt: the time counts from the last resume.
    """
    wait = timedelta(seconds=rule.for_seconds)
    for one in _watched(rule, now=now):
        since = max(one.newest.at, one.status_since)
        if now - since >= wait:
            yield _condition(rule, one, since=since)


def _watched(rule: AlertRule, *, now: datetime) -> list[_Watched]:
    runs = watched_runs(rule, now=now).order_by("-pk").values("pk")[:RUNS_AT_MOST]
    series = MetricSeries.objects.filter(name=rule.metric, run_id__in=runs)
    rows = list(
        series.order_by("-run_id").values_list(
            *("pk", "run_id", "run__name", "run__status_changed_at")
        )
    )
    newest = newest_samples([row[0] for row in rows])
    return [
        _Watched(series_id, run_id, run, since, newest[series_id])
        for series_id, run_id, run, since in rows
        if series_id in newest
    ]


def _since(series_ids: Sequence[int], limit: Limit, *, now: datetime) -> dict[int, datetime]:
    """Return the beginning of each sufficiently long breach by series."""
    found = {}
    for at in range(0, len(series_ids), READ_AT_ONCE):
        some = series_ids[at : at + READ_AT_ONCE]
        chart_range = SeriesRange(
            axis="time", first=_read_from(some, limit, now=now), at_most=FINENESS
        )
        for series_id, blocks in blocks_of_series(some, chart_range).items():
            coarse = condensed(blocks, at_most=FINENESS).blocks
            began = breach_start(coarse, limit, until=_micros(now))
            if began is not None:
                found[series_id] = datetime_of(began)
    return found


def _read_from(series_ids: Sequence[int], limit: Limit, *, now: datetime) -> int:
    """Return the start of the interval to read, so that it includes the value at its beginning."""
    begin = _micros(now - timedelta(seconds=limit.for_seconds))
    chunks = MetricChunk.objects.filter(series_id__in=series_ids, time_min__lte=begin)
    starts = chunks.order_by().values("series_id").annotate(start=Max("time_min"))
    return min((row["start"] for row in starts), default=0)


def _condition(rule: AlertRule, one: _Watched, *, since: datetime) -> Condition:
    return Condition(
        kind=AlertKind.RULE,
        run_id=one.run_id,
        subject=str(rule.pk),
        severity=Severity(rule.severity),
        message=f"{rule.metric} of {one.run} is {rule.limit.condition}",
        details={
            "title": rule.name,
            "runbook": rule.runbook,
            "metric": rule.metric,
            "threshold": rule.threshold,
            "value": written(one.newest.value),
            "step": one.newest.step,
            "since": since.isoformat(),
        },
    )


def _micros(at: datetime) -> int:
    return (at - EPOCH) // timedelta(microseconds=1)
