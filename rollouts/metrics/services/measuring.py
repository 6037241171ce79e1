"""Periodic measurement of runs, stored as chart series.

    idle ── activity ──▶ measured every period ── no activity ──▶ idle

A row per run stores how far it was measured, and the values are stored in the transaction that
advances it. An interrupted measurement is repeated from its beginning, and of two concurrent ones
the second does nothing. Pushes and batch requests never wait for a measurement.
"""

import logging
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from django.db import transaction
from django.db.models import Q

from rollouts.metrics.models.metrics import MeasureCursor
from rollouts.metrics.queries.flows import EvaluationMeans, counts_of, has_moved, runs_to_measure
from rollouts.metrics.rules.measures import began_at
from rollouts.metrics.services.amounts import advance_amount
from rollouts.metrics.services.builtin_metrics import Found, RunChanges, levels, rates, waits
from rollouts.metrics.services.builtin_series import store_builtin, store_or_warn
from rollouts.metrics.services.metrics import Figure
from runs.lifecycle.models.runs import Run

logger = logging.getLogger(__name__)

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
    return sum(_is_measured(run_id, now=now) for run_id in runs_to_measure())


def _is_measured(run_id: int, *, now: datetime) -> bool:
    try:
        return measure_run(run_id=run_id, now=now)
    except Exception:
        logger.exception("metrics of run %d not measured", run_id)
        return False


@transaction.atomic
def measure_run(*, run_id: int, now: datetime) -> bool:
    """Measure a run unless it was just measured or was idle; return whether it was measured."""
    cursor = _claimed(run_id, now=now)
    if cursor is None:
        return False
    run = Run.objects.select_related("fleet").get(pk=run_id)
    counts = counts_of([run])[run_id]
    is_quiet = not has_moved(cursor, counts)
    if is_quiet and cursor.was_quiet:
        return False
    run_changes = RunChanges.at(run, cursor, counts)
    found = [levels(run_changes)]
    # Last, because other writers of this run's metrics wait from here on.
    amount = advance_amount(run_id)
    if cursor.measured_at is not None:
        found += _since_before(run_changes, cursor.measured_at, amount=amount, now=now)
    values = {name: value for one in found for name, value in one.items()}
    store_builtin(run, values, now=now)
    if not run.takes_groups:
        _store_evaluations(run, run_changes.episodes.evaluations, now=now)
    _move_on(run_changes, found, amount=amount, was_quiet=is_quiet, now=now)
    return True


def _claimed(run_id: int, *, now: datetime) -> MeasureCursor | None:
    """Return a run's cursor, locked until the transaction ends; None if it is not due."""
    MeasureCursor.objects.bulk_create([MeasureCursor(run_id=run_id)], ignore_conflicts=True)
    is_due = Q(measured_at=None) | Q(measured_at__lte=now - LEAST)
    rows = MeasureCursor.objects.select_for_update(skip_locked=True, no_key=True)
    return rows.filter(is_due, run_id=run_id).first()


def _since_before(
    run_changes: RunChanges, before: datetime, *, amount: int, now: datetime
) -> list[Found]:
    """Return the metrics that need two measurements."""
    was_quiet = run_changes.before.was_quiet
    since = began_at(
        before, was_quiet=was_quiet, first_at=run_changes.first_at, now=now, usual=PERIOD
    )
    found = rates(run_changes, amount=amount, seconds=(now - since).total_seconds())
    if was_quiet and since > before:
        # The interval began before the pause, so there is no slope.
        store_builtin(run_changes.run, dict.fromkeys(found, 0.0), now=since)
    return [found, waits(run_changes.run, since=since, now=now)]


def _store_evaluations(run: Run, evaluations: Iterable[EvaluationMeans], *, now: datetime) -> None:
    """Store the series of evaluations, at their versions."""
    figures = [
        Figure(f"eval/{name}", max(0, means.policy_step), value)
        for means in evaluations
        for name, value in (
            ("episode_return", means.episode_return),
            ("episode_length", means.episode_length),
        )
    ]
    if figures:
        store_or_warn(run, figures, now=now)


def _move_on(
    run_changes: RunChanges, found: Iterable[Found], *, amount: int, was_quiet: bool, now: datetime
) -> None:
    cursor = run_changes.before
    for name, figure in _LISTED.items():
        for one in found:
            # If nothing arrived or was served, the previous values are still the last ones.
            if (value := one.get(figure)) is not None:
                setattr(cursor, name, value)
    for name, count in run_changes.counts.items():
        setattr(cursor, name, count)
    cursor.amount, cursor.was_quiet, cursor.measured_at = amount, was_quiet, now
    cursor.batch, cursor.episode_window = run_changes.batches.last, run_changes.episodes.last
    cursor.group_written_in, cursor.group = run_changes.groups.last
    cursor.digest_written_in, cursor.digest = run_changes.digested[0]
    cursor.info_totals = run_changes.info_totals
    cursor.save()
