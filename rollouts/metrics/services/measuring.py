"""Periodic measurement of runs, stored as chart series.

    idle ── activity ──▶ measured every period ── no activity ──▶ idle

A row per run stores how far it was measured, and the values are stored in the transaction that
advances it. An interrupted measurement is repeated from its beginning, and of two concurrent ones
the second does nothing. Pushes and batch requests never wait for a measurement.

The resources of fleets are those of the workers' last reports, so measuring them costs a fleet
nothing. Fleets are measured while they report, also without rollouts: a worker may leak memory
while it waits. A metric without a value is None, and is not stored.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import transaction
from django.db.models import Q

from buffer.batches.queries.queues import pause_rule
from buffer.batches.queries.rates import (
    BatchFlow,
    FlowCursor,
    GroupFlow,
    batch_flow,
    cut_flow,
    group_flow,
    trainer_wait_share,
)
from buffer.inspect.services import ignore_numbers, take_numbers
from rolldeck.metric_names import environment_prefix
from rollouts.control.queries.fleets import weights_transfers
from rollouts.control.rules import info_figures
from rollouts.metrics.models import MeasureCursor
from rollouts.metrics.queries.measuring import (
    EpisodeFlow,
    FleetUsage,
    TrainStep,
    counts_of,
    episode_flow,
    fleet_usages,
    fleet_wait_share,
    has_moved,
    newest_of,
    runs_to_measure,
    runs_with_fleets,
    runs_with_numbers,
    train_steps,
)
from rollouts.metrics.rules import (
    OWN_PREFIX,
    WORKERS,
    at_rank,
    began_at,
    resource_values,
    transfer_figures,
)
from rollouts.metrics.services.metrics import (
    Figure,
    InvalidMetrics,
    advance_amount,
    known_series,
    store_figures,
)
from runs.lifecycle.models import Run
from runs.lifecycle.rules import version_in_force

logger = logging.getLogger(__name__)


def store_builtin(run: Run, values: Mapping[str, float | None], *, now: datetime) -> None:
    """Store values under the platform's prefix, at the current train step; None is not stored."""
    version = version_in_force(
        epoch=run.epoch, policy_step=run.policy_step, served_steps=run.served_steps
    )
    store_or_warn(run, builtin(values, step=max(0, version.step)), now=now)


def builtin(
    values: Mapping[str, float | None],
    *,
    step: int,
    at: datetime | None = None,
    amount: int | None = None,
) -> list[Figure]:
    """Return the values that are not None under the platform's prefix."""
    return [
        Figure(OWN_PREFIX + name, step, float(value), at, amount)
        for name, value in values.items()
        if value is not None
    ]


def store_or_warn(run: Run, figures: Sequence[Figure], *, now: datetime) -> set[str]:
    """Store values; return the new names that are not stored if the run has too many."""
    if not figures:
        return set()
    try:
        store_figures(run_id=run.pk, figures=figures, now=now)
    except InvalidMetrics as full:
        known = known_series(run.pk, [figure.name for figure in figures])
        old = [figure for figure in figures if figure.name in known]
        if old:
            store_figures(run_id=run.pk, figures=old, now=now)
        new = {figure.name for figure in figures} - known.keys()
        logger.warning("%d new metrics of run %s not stored: %s", len(new), run.name, full.message)
        return new
    return set()


_PERCENTILES: Final = ("reward/p10", "reward/p50", "reward/p90")
Found = Mapping[str, float | None]
"""Values by metric name, without the platform's prefix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunChanges:
    """Changes of a run since the last measurement."""

    run: Run
    before: MeasureCursor
    counts: Mapping[str, int]
    """Present values; those of `before` are the last measured ones."""
    groups: GroupFlow
    digested: tuple[FlowCursor, float | None]
    """Id of the last digested group, and the share of truncated sequences."""
    batches: BatchFlow
    steps: Sequence[TrainStep]
    """Ends of the train steps since then; the last one is the present."""
    episodes: EpisodeFlow
    info_totals: Mapping[str, Any]
    """Sums of numeric values of `info`, of a fleet; empty without one."""
    weights_totals: Mapping[str, float]
    """Transfers of weights to the workers of a fleet; empty without one."""

    @classmethod
    def at(
        cls, run: Run, before: MeasureCursor, counts: Mapping[str, int], *, now: datetime
    ) -> "RunChanges":
        """Read the changes of a run."""
        batches = batch_flow(run.pk, after=before.batch)
        steps = train_steps(run, batches.leased, now=now)
        bounds = [step.at for step in steps[:-1]]
        group = FlowCursor(before.group_written_in, before.group)
        digest = FlowCursor(before.digest_written_in, before.digest)
        return cls(
            run=run,
            before=before,
            counts=counts,
            groups=group_flow(run.pk, after=group, bounds=bounds),
            digested=cut_flow(run.pk, after=digest),
            batches=batches,
            steps=steps,
            episodes=episode_flow(run.pk, after=before.episode_window, bounds=bounds),
            info_totals=run.fleet.info_totals if run.has_fleet and hasattr(run, "fleet") else {},
            weights_totals=weights_transfers(run.pk) if run.has_fleet else {},
        )

    @property
    def first_at(self) -> datetime | None:
        """Time at which the first new item arrived or was served."""
        times = (self.groups.first_at, self.batches.first_at)
        return min((at for at in times if at is not None), default=None)


def levels(run_changes: RunChanges) -> Found:
    """Return present values, and values over all new data regardless of its time."""
    run, groups = run_changes.run, run_changes.groups
    rule = pause_rule(run)
    staleness = run_changes.batches.staleness
    own: dict[str, float | None] = {}
    if run.takes_groups:
        dropped = run_changes.counts["without_variance"] - run_changes.before.without_variance
        seen = groups.groups + dropped
        own = {
            "truncated_share": run_changes.digested[1],
            "zero_variance_share": (groups.without_variance + dropped) / seen if seen else None,
        }
    return {
        "queue/depth": run_changes.counts["queued"],
        "queue/threshold": rule.pause_above if rule else None,
        "staleness/p50": at_rank(staleness, 0.5),
        "staleness/p95": at_rank(staleness, 0.95),
        **own,
        **info_figures(run_changes.before.info_totals, run_changes.info_totals),
        **transfer_figures(run_changes.before.weights_totals, run_changes.weights_totals),
    }


def points(run_changes: RunChanges) -> list[tuple[int, Found]]:
    """Return the statistics of the data of each train step, with its index in `steps`.

    The return of a run with a fleet is the mean over its last 20 training episodes, as on all pages
    and in lists. An outside run has the mean score of the groups that arrived in the step.
    """
    found: list[tuple[int, Found]] = []
    if run_changes.run.has_fleet:
        for part in run_changes.episodes.parts:
            values = {
                "reward/mean": part.recent_return_mean,
                **dict(zip(_PERCENTILES, part.return_percentiles or (), strict=False)),
                "length/mean": part.mean_length,
                "length/max": part.longest,
            }
            if not run_changes.run.takes_groups:
                values["truncated_share"] = part.truncated_share
            found.append((part.interval, values))
        return found
    for group_part in run_changes.groups.parts:
        values = {
            "reward/mean": group_part.score_mean,
            **dict(zip(_PERCENTILES, group_part.score_percentiles or (), strict=False)),
            "length/mean": group_part.mean_tokens,
            "length/max": group_part.longest_tokens,
        }
        found.append((group_part.interval, values))
    return found


def _figures_of(run_changes: RunChanges, *, amount: int, now: datetime) -> list[Figure]:
    """Return the points as values to store, in order of time.

    The amounts between two measurements are interpolated in time.
    """
    before = run_changes.before
    since = before.measured_at or run_changes.run.started_at or run_changes.steps[0].at
    seconds = max((now - since).total_seconds(), 1e-3)
    figures: list[Figure] = []
    for interval, values in points(run_changes):
        at, step = run_changes.steps[interval]
        share = min(1.0, max(0.0, (at - since).total_seconds() / seconds))
        reached = before.amount + round((amount - before.amount) * share)
        figures += builtin(values, step=step, at=at, amount=reached)
    return figures


def rates(run_changes: RunChanges, *, amount: int, seconds: float) -> dict[str, float]:
    """Return the rates at which data arrived and was served in an interval of some `seconds`.

    `amount` is the present number of served tokens, or of env steps.
    """
    work = "tokens_per_second" if run_changes.run.takes_groups else "env_steps_per_second"
    return {
        "accepted_per_second": (run_changes.counts["accepted"] - run_changes.before.accepted)
        / seconds,
        "served_per_second": run_changes.batches.items / seconds,
        work: (amount - run_changes.before.amount) / seconds,
    }


ENVIRONMENTS_AT_MOST: Final = 100
"""Maximum number of environments with built-in metrics in one measurement."""
PERIOD: Final = timedelta(seconds=10)
LEAST: Final = timedelta(seconds=8)
"""Minimum interval between two measurements of a run, because beats may be early or duplicated."""
_LISTED: Final = {
    "accepted_per_second": "accepted_per_second",
    "staleness_p50": "staleness/p50",
    "reward_mean": "reward/mean",
}
"""Fields of the cursor that hold metrics, by metric name."""


def measure_runs(*, now: datetime) -> int:
    """Measure every run with activity; return their number."""
    measured = 0
    for run_id in runs_to_measure():
        try:
            measured += measure_run(run_id=run_id, now=now)
        except Exception:
            logger.exception("metrics of run %d not measured", run_id)
    return measured


@transaction.atomic
def measure_run(*, run_id: int, now: datetime) -> bool:
    """Measure a run unless it was just measured or was idle; return whether it was measured."""
    MeasureCursor.objects.bulk_create([MeasureCursor(run_id=run_id)], ignore_conflicts=True)
    is_due = Q(measured_at=None) | Q(measured_at__lte=now - LEAST)
    rows = MeasureCursor.objects.select_for_update(skip_locked=True, no_key=True)
    cursor = rows.filter(is_due, run_id=run_id).first()
    if cursor is None:
        return False
    run = Run.objects.select_related("fleet").get(pk=run_id)
    counts = counts_of([run])[run_id]
    is_quiet = not has_moved(cursor, counts)
    if is_quiet and cursor.was_quiet and not runs_with_numbers([run_id]):
        return False
    run_changes = RunChanges.at(run, cursor, counts, now=now)
    values = dict(levels(run_changes))
    # Last, because other writers of this run's metrics wait from here on.
    amount = advance_amount(run_id)
    seconds = None
    if cursor.measured_at is not None:
        since = began_at(
            cursor.measured_at,
            was_quiet=cursor.was_quiet,
            first_at=run_changes.first_at,
            now=now,
            usual=PERIOD,
        )
        seconds = (now - since).total_seconds()
        values |= _changes_since(run_changes, since, amount=amount, now=now)
    store_builtin(run, values, now=now)
    figures = _figures_of(run_changes, amount=amount, now=now)
    values |= {figure.name.removeprefix(OWN_PREFIX): figure.value for figure in figures}
    if not run.takes_groups:
        # The series of evaluations, at their versions.
        for means in run_changes.episodes.evaluations:
            step = max(0, means.policy_step)
            figures.append(Figure("eval/episode_return", step, means.episode_return))
            figures.append(Figure("eval/episode_length", step, means.episode_length))
    if figures:
        store_or_warn(run, figures, now=now)
    _store_environments(run_changes, seconds=seconds, step=run_changes.steps[-1].step, now=now)
    for name, figure in _LISTED.items():
        # If nothing arrived or was served, the previous values are still the last ones.
        if (value := values.get(figure)) is not None:
            setattr(cursor, name, value)
    for name, count in counts.items():
        setattr(cursor, name, count)
    cursor.amount, cursor.was_quiet, cursor.measured_at = amount, is_quiet, now
    cursor.batch, cursor.episode_window = run_changes.batches.last, run_changes.episodes.last
    cursor.group_written_in, cursor.group = run_changes.groups.last
    cursor.digest_written_in, cursor.digest = run_changes.digested[0]
    cursor.info_totals = run_changes.info_totals
    cursor.weights_totals = dict(run_changes.weights_totals)
    cursor.save()
    return True


def _store_environments(
    run_changes: RunChanges, *, seconds: float | None, step: int, now: datetime
) -> None:
    """Store figures of each environment of an outside run, and the numbers of its groups.

    Args:
        run_changes: Changes of the run since the last measurement.
        seconds: Length of the interval of the rates; None without an earlier measurement.
        step: Present train step.
        now: Present time.
    """
    values: dict[str, float | None] = {}
    for found in run_changes.groups.environments[:ENVIRONMENTS_AT_MOST]:
        prefix = environment_prefix(found.environment)
        values[prefix + "reward/mean"] = found.score_mean
        values[prefix + "length/mean"] = found.mean_tokens
        values[prefix + "groups_per_second"] = seconds and found.groups / seconds
    store_or_warn(run_changes.run, builtin(values, step=step), now=now)
    numbers = take_numbers(run_changes.run.pk)
    figures = [Figure(one.series, step, one.mean) for one in numbers]
    refused = store_or_warn(run_changes.run, figures, now=now)
    ignore_numbers(run_changes.run.pk, [one for one in numbers if one.series in refused], now=now)


def _changes_since(
    run_changes: RunChanges, since: datetime, *, amount: int, now: datetime
) -> dict[str, float | None]:
    """Return the metrics that need two measurements; rates are those since a time."""
    run, before = run_changes.run, run_changes.before
    found = rates(run_changes, amount=amount, seconds=(now - since).total_seconds())
    if before.was_quiet and before.measured_at is not None and since > before.measured_at:
        # Nothing changed during the pause, so it is drawn without a slope.
        still: dict[str, float | None] = {**dict.fromkeys(found, 0.0)}
        store_builtin(run, still | {"queue/depth": before.queued}, now=since)
    # The shares of the time that trainers waited for data, and workers for free space.
    return {
        **found,
        "trainer/waiting_share": trainer_wait_share(run.pk, since=since, until=now),
        "fleet/waiting_share": fleet_wait_share(run.pk) if run.has_fleet else None,
    }


def measure_resources(*, now: datetime, only_run: int | None = None) -> int:
    """Store the present usage of every fleet that reports; return the number of runs stored.

    A fleet that has stopped reporting gets one sample of 0 workers, after which its charts have a
    gap.

    Args:
        now: Present time.
        only_run: Id of a single run to measure; None for all.
    """
    found = runs_with_fleets(now=now)
    runs = {run.pk: run for run in found if only_run in (None, run.pk)}
    newest = newest_of(runs, name=OWN_PREFIX + WORKERS)
    usages = fleet_usages(runs, now=now)
    stored = 0
    for run_id, run in runs.items():
        usage, last = usages.get(run_id), newest.get(run_id)
        # Beats may be early or duplicated.
        if last is not None and last.at > now - LEAST:
            continue
        # The fleet has changed from or to no workers, or has workers.
        if usage is None and (last is None or last.value == 0):
            continue
        usage = usage or FleetUsage()
        values = resource_values(usage.workers, usage.sums, usage.single)
        try:
            store_builtin(run, values, now=now)
            stored += 1
        except Exception:
            logger.exception("resources of run %d not measured", run_id)
    return stored
