"""Queue status for environments, by which they pace themselves."""

from collections import Counter
from datetime import datetime
from typing import Final

from django.db.models.functions import Now

from buffer.batches.queries.queues import (
    UnknownEnvironmentId,
    pause_rule,
    queued_by_environment_and_size,
    shares_of_environments,
)
from buffer.batches.rules.pacing import (
    EnvironmentStatus,
    ended,
    environment_status,
    held,
    is_over,
    paced,
)
from runs.lifecycle.models import Environment, Run
from runs.lifecycle.rules import SEEN_EVERY, TERMINAL, RunStatus
from runs.lifecycle.services.registry import record_hold, renew_environments_seen
from web.live.announcements import announce

HELD: Final = frozenset({RunStatus.PAUSED, RunStatus.DRAINING}) | TERMINAL
"""Statuses of a run whose environments must not produce. Groups that they push are accepted."""


def status_of_environment(run: Run, env_id: int, *, now: datetime) -> EnvironmentStatus:
    """Return the status of an environment and of the queue, and record the request.

    The run's row stores whether the queue is over its tolerance, so that all web processes report
    the same, also after a restart. It is written only on changes.

    Raises:
        UnknownEnvironmentId: If the run has no such environment.
    """
    environments = list(Environment.objects.filter(run=run))
    own = next((row for row in environments if row.env_id == env_id), None)
    if own is None:
        raise UnknownEnvironmentId(f"this run has no environment {env_id}")
    if now - own.last_seen_at > SEEN_EVERY:
        renew_environments_seen(run_id=run.pk, env_ids=[env_id], now=now)
    shares = shares_of_environments(environments, asking=env_id, now=now)
    queued = queued_by_environment_and_size(run.pk)
    status = environment_status(
        env_id=env_id, environments=shares, queued=queued, batch_size=run.batch_size or 0
    )
    record_hold(own, is_held=run.status in HELD, now=now)
    if run.status == RunStatus.COMPLETED:
        return ended(status)
    if run.status in HELD:
        return held(
            status,
            batch_size=run.batch_size or 1,
            group_size=own.group_size,
            steps_left=run.steps_left,
        )
    rule = pause_rule(run)
    if run.exact_queue_size or rule is None:
        return status
    sequences: Counter[int | None] = Counter()
    for (env, size), groups in queued.items():
        sequences[env] += size * groups
    over = is_over(rule, over=run.over_tolerance, queued=sequences.total())
    if over is not run.over_tolerance:
        changed = Run.objects.filter(pk=run.pk, over_tolerance=run.over_tolerance)
        if changed.update(over_tolerance=over, over_tolerance_at=Now() if over else None):
            announce(run.pk, "queue")
    return paced(status, env_id=env_id, environments=shares, queued=sequences, rule=rule, over=over)
