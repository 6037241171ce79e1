"""Changes of runs since their last measurement, and resource usage of the workers that report."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from django.db.models import Avg, Count, F, FloatField, Max, Min, Q, Sum
from django.db.models.functions import Cast

from buffer.batches.queries.rates import RunCounts, run_counts
from rollouts.control.models import EpisodeWindow, FleetWorker
from rollouts.control.rules import UNKNOWN_AFTER
from rollouts.fleet.process import spans
from rollouts.metrics.models import MeasureCursor, MetricSeries
from rollouts.metrics.queries.metrics import Sample, newest_samples
from rollouts.metrics.rules import WORKERS_LISTED
from runs.lifecycle.models import Run
from runs.lifecycle.rules import ACTIVE
from web import sql

WINDOWS_AT_MOST: Final = 2_000
# Reports of one fleet are stored one after the other, so ids are ordered.
_EPISODES: Final = """
    WITH new AS MATERIALIZED (
        SELECT id, mode, count, return_sum, length_mean, length_max, truncated, returns
        FROM rollouts_episodewindow
        WHERE run_id = %s AND id > %s ORDER BY id DESC LIMIT %s
    ), train AS (SELECT * FROM new WHERE mode = 'train')
    SELECT (SELECT max(id) FROM new), COALESCE(sum(count), 0)::bigint, sum(return_sum) / sum(count),
        (SELECT percentile_cont(ARRAY[0.1, 0.5, 0.9]) WITHIN GROUP (ORDER BY one)
            FROM train, unnest(returns) AS one WHERE abs(one) < 'Infinity'),
        sum(length_mean * count) / sum(count), max(length_max)::float8,
        sum(truncated)::float8 / sum(count)
    FROM train"""


class EvaluationMeans(NamedTuple):
    """Means over the episodes of one evaluation."""

    policy_step: int
    episode_return: float
    episode_length: float
    """Env steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeFlow:
    """Statistics of the episodes that ended after a window; of training, unless named otherwise."""

    last: int
    """Id of the newest window, of training or of an evaluation."""
    evaluations: Sequence[EvaluationMeans] = ()
    """Evaluations in the order of their reports."""
    episodes: int = 0
    return_mean: float | None = None
    return_percentiles: Sequence[float] | None = None
    """Percentiles 10, 50 and 90 over the individually reported episodes."""
    mean_length: float | None = None
    """Env steps; for a language run, tokens."""
    longest: float | None = None
    truncated_share: float | None = None


def episode_flow(run_id: int, *, after: int) -> EpisodeFlow:
    """Return the episodes of a run after window `after`, of the newest windows if too many."""
    with sql.cursor() as cursor:
        row = cursor.execute(_EPISODES, [run_id, after, WINDOWS_AT_MOST]).fetchone()
    if row is None or row[0] is None:
        return EpisodeFlow(last=after)
    last, episodes, return_mean, percentiles, mean_length, longest, truncated_share = row
    # One evaluation of a version may have several windows.
    found = EpisodeWindow.objects.filter(run_id=run_id, mode="eval", id__gt=after, id__lte=last)
    means = found.values("policy_step").annotate(
        first=Min("id"),
        episode_return=Sum("return_sum") / Sum("count"),
        episode_length=Sum(F("length_mean") * F("count")) / Sum("count"),
    )
    rows = means.order_by("first").values_list("policy_step", "episode_return", "episode_length")
    return EpisodeFlow(
        last=last,
        evaluations=[EvaluationMeans(*columns) for columns in rows[:WINDOWS_AT_MOST]],
        episodes=episodes,
        return_mean=return_mean,
        return_percentiles=percentiles,
        mean_length=mean_length,
        longest=longest,
        truncated_share=truncated_share,
    )


def fleet_wait_share(run_id: int) -> float | None:
    """Return the share of the last minute in which the admission limit paused all env slots.

    Mean of the last reports of running workers; None if none is running.
    """
    running = FleetWorker.objects.filter(fleet__run_id=run_id, state="running")
    shares = [one for one in running.values_list("shares", flat=True) if one]
    return spans.mean_shares(shares).get("waiting_room", 0.0) if shares else None


def counts_of(runs: Sequence[Run]) -> dict[int, dict[str, int]]:
    """Return the counts of each run that a `MeasureCursor` stores."""
    found = run_counts([run.pk for run in runs])
    nothing = RunCounts()
    counts = {}
    for run in runs:
        fleet = getattr(run, "fleet", None)
        counts[run.pk] = found.get(run.pk, nothing)._asdict() | {
            "served_steps": run.served_steps,
            "env_steps": fleet.env_steps_total if fleet else 0,
        }
    return counts


def has_moved(cursor: MeasureCursor, counts: Mapping[str, int]) -> bool:
    """Return whether a run had activity since its last measurement."""
    return any(getattr(cursor, name) != count for name, count in counts.items())


def runs_to_measure() -> list[int]:
    """Return active runs with activity, or whose activity has just ended.

    A run that has ended is included once more, so that its charts cover its last changes.
    """
    ended_since = Q(status_changed_at__gt=F("measure_cursor__measured_at"))
    selected = Run.objects.current().filter(Q(status__in=ACTIVE) | ended_since)
    runs = list(selected.select_related("measure_cursor", "fleet").order_by("pk"))
    counts = counts_of(runs)
    nothing = MeasureCursor()
    cursors = {run.pk: getattr(run, "measure_cursor", nothing) for run in runs}
    return [
        run_id
        for run_id, cursor in cursors.items()
        if not cursor.was_quiet or has_moved(cursor, counts[run_id])
    ]


RECENT: Final = timedelta(minutes=5)
"""Age of a fleet's last report up to which the end of its series is recorded."""
_HAS_GPU: Final = Q(gpu_percent__isnull=False, gpu_memory_bytes__isnull=False)
_PER_WORKER: Final = ("cpu_percent", "memory_bytes")
_PER_DEVICE: Final = ("gpu_percent", "gpu_memory_bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetUsage:
    """Usage of the measured workers of one fleet."""

    workers: int = 0
    """Workers with a recent report that contains CPU and memory."""
    sums: Mapping[str, Any] = field(default_factory=dict)
    """Sum, min, mean and max by field, such as ``memory_bytes_max``; None without a measurement."""
    single: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    """Fields by worker, of a fleet with few workers."""


def runs_with_fleets(*, now: datetime) -> list[Run]:
    """Return the current runs whose fleet has reported within the last minutes."""
    found = Run.objects.current().filter(fleet__heard_at__gte=now - RECENT)
    return list(found.order_by("pk"))


def newest_of(run_ids: Collection[int], *, name: str) -> dict[int, Sample]:
    """Return the newest sample of a series by run."""
    series = dict(
        MetricSeries.objects.filter(run_id__in=run_ids, name=name).values_list("pk", "run_id")
    )
    return {series[pk]: sample for pk, sample in newest_samples(list(series)).items()}


def fleet_usages(run_ids: Collection[int], *, now: datetime) -> dict[int, FleetUsage]:
    """Return the usage of each run's fleet; runs without measured workers are omitted."""
    fresh = FleetWorker.objects.filter(heartbeat_at__gt=now - UNKNOWN_AFTER)
    measured = fresh.filter(
        fleet__run_id__in=run_ids, cpu_percent__isnull=False, memory_bytes__isnull=False
    ).exclude(state__in=("stopped", "failed"))
    rows = measured.values("fleet__run_id").annotate(
        count=Count("pk"),
        **{f"{name}_sum": Sum(Cast(name, FloatField())) for name in _PER_WORKER},
        # Workers that share a device both report it, so its values have no sum.
        **{
            f"{name}_{word}": of(
                Cast(name, FloatField()), filter=_HAS_GPU if name in _PER_DEVICE else None
            )
            for name in (*_PER_WORKER, *_PER_DEVICE)
            for word, of in (("min", Min), ("mean", Avg), ("max", Max))
        },
    )
    found: dict[int, dict[str, Any]] = {row["fleet__run_id"]: dict(row) for row in rows.order_by()}
    small = [run_id for run_id, row in found.items() if row["count"] <= WORKERS_LISTED]
    listed = measured.filter(fleet__run_id__in=small, index__lt=WORKERS_LISTED).order_by("index")
    single: dict[int, dict[int, dict[str, Any]]] = {}
    for row in listed.values("fleet__run_id", "index", *_PER_WORKER, *_PER_DEVICE):
        single.setdefault(row["fleet__run_id"], {})[row["index"]] = dict(row)
    return {
        run_id: FleetUsage(workers=row["count"], sums=row, single=single.get(run_id, {}))
        for run_id, row in found.items()
    }
