"""Changes of runs since their last measurement, and resource usage of the workers that report."""

from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from django.db.models import Avg, Count, Exists, F, FloatField, Max, Min, OuterRef, Q, Sum
from django.db.models.functions import Cast

from buffer.batches.queries.rates import RunCounts, run_counts
from rollouts.control.models import EpisodeWindow, FleetWorker
from rollouts.control.rules import UNKNOWN_AFTER
from rollouts.fleet.process import spans
from rollouts.metrics.models import MeasureCursor, MetricSeries
from rollouts.metrics.queries.metrics import Sample, newest_samples
from rollouts.metrics.rules import WORKERS_LISTED
from runs.lifecycle.models import EnvironmentNumbers, PolicyVersion, Run
from runs.lifecycle.rules import ACTIVE, NO_POLICY_STEP, version_in_force
from web import sql

POINTS_AT_MOST: Final = 100
"""Number of points that one measurement adds to a curve."""
WINDOWS_AT_MOST: Final = 2_000
# Reports of one fleet are stored one after the other, so ids are ordered.
_EPISODES: Final = """
    WITH new AS MATERIALIZED (
        SELECT id, mode, count, length_mean, length_max, truncated, returns, recent_return_mean,
            width_bucket(at, %s::timestamptz[]) AS interval_
        FROM rollouts_episodewindow
        WHERE run_id = %s AND id > %s ORDER BY id DESC LIMIT %s
    ), percentiles AS (
        SELECT interval_,
            percentile_cont(ARRAY[0.1, 0.5, 0.9]) WITHIN GROUP (ORDER BY one) AS of_returns
        FROM new, unnest(returns) AS one WHERE mode = 'train' AND abs(one) < 'Infinity'
        GROUP BY interval_
    )
    SELECT max(id),
        (array_agg(recent_return_mean ORDER BY id DESC) FILTER (WHERE mode = 'train'))[1],
        min(of_returns), sum(length_mean * count) FILTER (WHERE mode = 'train')
            / sum(count) FILTER (WHERE mode = 'train'),
        max(length_max) FILTER (WHERE mode = 'train')::float8,
        sum(truncated) FILTER (WHERE mode = 'train')::float8
            / sum(count) FILTER (WHERE mode = 'train'),
        interval_
    FROM new LEFT JOIN percentiles USING (interval_) GROUP BY interval_ ORDER BY interval_"""


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
    parts: Sequence["EpisodeStatistics"] = ()
    """Statistics of each interval with reports, in order."""


class EpisodeStatistics(NamedTuple):
    """Statistics of the training episodes that were reported in one interval."""

    recent_return_mean: float | None
    """Mean over the last 20 training episodes at the end of the interval."""
    return_percentiles: Sequence[float] | None
    """Percentiles 10, 50 and 90 over the individually reported episodes."""
    mean_length: float | None
    """Env steps; for a language run, tokens."""
    longest: float | None
    truncated_share: float | None
    interval: int
    """Number of bounds at or before the reports."""


def episode_flow(run_id: int, *, after: int, bounds: Sequence[datetime]) -> EpisodeFlow:
    """Return the episodes of a run after window `after`, of the newest windows if too many.

    `bounds` are ascending times between the intervals of the statistics.
    """
    parameters = [list(bounds), run_id, after, WINDOWS_AT_MOST]
    with sql.cursor() as cursor:
        intervals = cursor.execute(_EPISODES, parameters).fetchall()
    if not intervals:
        return EpisodeFlow(last=after)
    last = max(window for window, *_ in intervals)
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
        parts=[EpisodeStatistics(*columns) for _, *columns in intervals],
    )


class TrainStep(NamedTuple):
    """The end of a train step of a run."""

    at: datetime
    step: int
    """Version in force, or number of served batches if no weights are published."""


def train_steps(run: Run, leased: Sequence[datetime], *, now: datetime) -> list[TrainStep]:
    """Return the ends of the train steps since a measurement, evenly thinned, and the present.

    A train step ends with the lease of the next batch.

    Args:
        run: The run.
        leased: Time of each lease since the measurement, ascending.
        now: Present time, the end of the last interval.
    """
    ends = [(at, run.served_steps - len(leased) + place) for place, at in enumerate(leased)]
    ends = [end for end in ends if end[0] < now]
    most = POINTS_AT_MOST - 1
    if len(ends) > most:
        ends = [ends[(place + 1) * len(ends) // most - 1] for place in range(most)]
    version = version_in_force(
        epoch=run.epoch, policy_step=run.policy_step, served_steps=run.served_steps
    )
    present = TrainStep(now, max(0, version.step))
    if run.policy_step <= NO_POLICY_STEP:
        return [*(TrainStep(at, max(0, step)) for at, step in ends), present]
    versions = PolicyVersion.objects.filter(run=run, epoch=run.epoch, published_at__lte=now)
    newest = versions.order_by("-step").values_list("published_at", "step")[:POINTS_AT_MOST]
    published = list(newest)[::-1]
    steps = [step for _, step in published] or [run.policy_step]
    times = [at for at, _ in published]
    past = [max(0, steps[max(0, bisect_right(times, at) - 1)]) for at, _ in ends]
    return [*(TrainStep(at, step) for (at, _), step in zip(ends, past, strict=True)), present]


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


def runs_with_numbers(run_ids: Collection[int]) -> set[int]:
    """Return the runs, of some, whose environments have numbers that are in no series yet."""
    pending = EnvironmentNumbers.objects.filter(run_id__in=run_ids).exclude(pending={})
    return set(pending.values_list("run_id", flat=True))


def runs_to_measure() -> list[int]:
    """Return active runs with activity, or whose activity has just ended.

    A run that has ended is included once more, so that its charts cover its last changes; and
    again while its groups are digested.
    """
    ended_since = Q(status_changed_at__gt=F("measure_cursor__measured_at"))
    is_digested = Exists(
        EnvironmentNumbers.objects.filter(run_id=OuterRef("pk")).exclude(pending={})
    )
    selected = Run.objects.current().filter(Q(status__in=ACTIVE) | ended_since | is_digested)
    runs = list(selected.select_related("measure_cursor", "fleet").order_by("pk"))
    counts = counts_of(runs)
    nothing = MeasureCursor()
    cursors = {run.pk: getattr(run, "measure_cursor", nothing) for run in runs}
    pending = runs_with_numbers(list(cursors))
    return [
        run_id
        for run_id, cursor in cursors.items()
        if not cursor.was_quiet or has_moved(cursor, counts[run_id]) or run_id in pending
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
