"""Tell environments how long the queue is, so that they pace themselves."""

from collections import Counter

from django.db.models.functions import Now

from buffer import selectors
from buffer.core.pacing import is_over, paced
from buffer.core.status_env import EnvironmentStatus, environment_status
from buffer.selectors import UnknownEnvironmentId
from runs import live
from runs.models import Run


def status_of_environment(run: Run, env_id: int) -> EnvironmentStatus:
    """Return what an environment is told of itself and the queue.

    Whether the queue is over its tolerance is kept in the run's row, so that every web process
    says the same, before and after a restart; it is written only when it changes.

    Raises:
        UnknownEnvironmentId: If the run has no such environment.
    """
    shares = selectors.shares_of_environments(run)
    if env_id not in {share.env_id for share in shares}:
        raise UnknownEnvironmentId(f"this run has no environment {env_id}")
    queued = selectors.queued_by_environment_and_size(run.pk)
    status = environment_status(
        env_id=env_id, environments=shares, queued=queued, batch_size=run.batch_size or 0
    )
    rule = selectors.pause_rule(run)
    if run.exact_queue_size or rule is None:
        return status
    sequences: Counter[int | None] = Counter()
    for (env, size), groups in queued.items():
        sequences[env] += size * groups
    over = _note_queue(run, queued=sequences.total())
    return paced(status, env_id=env_id, environments=shares, queued=sequences, rule=rule, over=over)


def _note_queue(run: Run, *, queued: int) -> bool:
    """Return whether the queue is over its tolerance, and remember it when that changed."""
    rule = selectors.pause_rule(run)
    over = rule is not None and is_over(rule, over=run.over_tolerance, queued=queued)
    if over is not run.over_tolerance:
        changed = Run.objects.filter(pk=run.pk, over_tolerance=run.over_tolerance)
        if changed.update(over_tolerance=over, over_tolerance_at=Now() if over else None):
            live.announce(run.pk, "queue")
    return over
