"""Say what is new in runs since they were measured: episodes, waiting workers, counts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from django.db.models import F, Q

from buffer.batches.queries.flows import RunCounts, run_counts
from buffer.items.queries import database
from rollouts.control.models.fleets import FleetWorker
from rollouts.fleet.worker import spans as pipeline
from rollouts.metrics.models.metrics import MeasureCursor
from runs.core.lifecycle import ACTIVE
from runs.models import Run

WINDOWS_AT_MOST: Final = 2_000
# Reports of one fleet are stored one after the other, so ids are in order.
_EPISODES: Final = """
    WITH new AS MATERIALIZED (
        SELECT id, count, return_sum, length_mean, length_max, truncated, returns
        FROM rollouts_episodewindow
        WHERE run_id = %s AND id > %s AND mode = 'train' ORDER BY id DESC LIMIT %s
    )
    SELECT max(id), sum(count)::bigint, sum(return_sum) / sum(count),
        (SELECT percentile_cont(ARRAY[0.1, 0.5, 0.9]) WITHIN GROUP (ORDER BY one)
            FROM new, unnest(returns) AS one WHERE abs(one) < 'Infinity'),
        sum(length_mean * count) / sum(count), max(length_max)::float8,
        sum(truncated)::float8 / sum(count)
    FROM new"""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeFlow:
    """What is to be said of training episodes that ended behind a window."""

    last: int
    """Id of the newest window."""
    episodes: int = 0
    return_mean: float | None = None
    return_percentiles: Sequence[float] | None = None
    """10, 50 and 90, of the episodes that windows tell one by one."""
    mean_length: float | None = None
    """Env steps; tokens, of a language run."""
    longest: float | None = None
    truncated_share: float | None = None


def episode_flow(run_id: int, *, after: int) -> EpisodeFlow:
    """Return what ended in a run behind window `after`; of very many windows, in the newest."""
    with database.cursor() as cursor:
        row = cursor.execute(_EPISODES, [run_id, after, WINDOWS_AT_MOST]).fetchone()
    if row is None or row[0] is None:
        return EpisodeFlow(last=after)
    last, episodes, return_mean, percentiles, mean_length, longest, truncated_share = row
    return EpisodeFlow(
        last=last,
        episodes=episodes,
        return_mean=return_mean,
        return_percentiles=percentiles,
        mean_length=mean_length,
        longest=longest,
        truncated_share=truncated_share,
    )


def fleet_waited(run_id: int) -> float | None:
    """Return the part of the last minute in which the admission limit held all env slots back.

    Mean of the last reports of running workers; None if none runs.
    """
    running = FleetWorker.objects.filter(fleet__run_id=run_id, state="running")
    shares = [one for one in running.values_list("shares", flat=True) if one]
    return pipeline.mean_shares(shares).get("waiting_room", 0.0) if shares else None


def counts_of(runs: Sequence[Run]) -> dict[int, dict[str, int]]:
    """Return what each of some runs has come to: the counts that a `MeasureCursor` keeps."""
    found = run_counts([run.pk for run in runs])
    nothing = RunCounts()
    return {run.pk: found.get(run.pk, nothing)._asdict() | _progress_of(run) for run in runs}


def _progress_of(run: Run) -> dict[str, int]:
    fleet = getattr(run, "fleet", None)
    return {
        "served_steps": run.served_steps,
        "env_steps": fleet.env_steps_total if fleet else 0,
    }


def has_moved(cursor: MeasureCursor, counts: Mapping[str, int]) -> bool:
    """Return whether anything has happened in a run since it was measured."""
    return any(getattr(cursor, name) != count for name, count in counts.items())


def runs_to_measure() -> list[int]:
    """Return active runs in which something happened or has just ceased to.

    A run that has ended is among them once more: what it did last is part of its charts.
    """
    ended_since = Q(status_changed_at__gt=F("measure_cursor__measured_at"))
    wanted = Run.objects.current().filter(Q(status__in=ACTIVE) | ended_since)
    runs = list(wanted.select_related("measure_cursor", "fleet").order_by("pk"))
    counts = counts_of(runs)
    nothing = MeasureCursor()
    cursors = {run.pk: getattr(run, "measure_cursor", nothing) for run in runs}
    return [
        run_id
        for run_id, cursor in cursors.items()
        if not cursor.was_quiet or has_moved(cursor, counts[run_id])
    ]
