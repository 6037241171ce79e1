"""Reconcile fleets with what their runs want, at once when asked and every few seconds."""

import logging
from typing import Final

from celery import current_app, shared_task
from django.conf import settings
from django.utils import timezone
from kombu.exceptions import OperationalError

from rollouts.control.queries.fleets import has_launched, runs_to_reconcile
from rollouts.control.services import orphans, recordings
from rollouts.control.services.cluster_status import note_cluster
from rollouts.control.services.ray_cluster import ClusterUnreachable, RayCluster
from rollouts.control.services.reconciliation import reconcile
from rollouts.curriculum.services import outcome_retention
from rollouts.metrics.services import measuring, metrics
from runs.jobs import IN_A_HURRY

logger = logging.getLogger(__name__)

NUDGE_EXPIRES_SECONDS: Final = 30
FRESH_SECONDS: Final = 4.0
"""A look at the cluster that is not older needs no other one."""


@shared_task(ignore_result=True)
def reconcile_fleets() -> int:
    """Start a pass over each run whose fleet needs something; return how many.

    Each run has a job of its own, so that one slow cluster call holds up no other run.
    """
    return sum(nudge(run_id) for run_id in runs_to_reconcile(now=timezone.now()))


@shared_task(ignore_result=True)
def give_up_recordings() -> int:
    """Call recordings failed that no fleet will finish any more; return how many."""
    return recordings.give_up_recordings(now=timezone.now())


@shared_task(ignore_result=True)
def pack_metrics() -> int:
    """Pack old samples of metrics; return how many chunks that made."""
    return metrics.pack_metrics(now=timezone.now())


@shared_task(ignore_result=True)
def measure_runs() -> int:
    """Measure what active runs do, for their charts; return how many were measured."""
    return measuring.measure_runs(now=timezone.now())


@shared_task(ignore_result=True)
def forget_outcomes() -> int:
    """Delete how tasks of lessons ended long ago; return how many rows."""
    return outcome_retention.forget_outcomes(now=timezone.now())


@shared_task(ignore_result=True)
def reconcile_fleet(run_id: int) -> None:
    """Bring the fleet of one run one step closer to what its run wants."""
    reconcile(
        run_id=run_id,
        cluster=_cluster(),
        platform_url=settings.ROLLDECK_PUBLIC_URL,
        now=timezone.now(),
    )


@shared_task(ignore_result=True)
def end_orphans() -> list[str]:
    """End managers on the cluster that no run owns; return their names."""
    if not has_launched():
        return []  # and no reason to ask a cluster that may not be there
    try:
        return orphans.end_orphans(
            cluster=_cluster(), platform_url=settings.ROLLDECK_PUBLIC_URL, now=timezone.now()
        )
    except ClusterUnreachable as error:
        logger.info("no look for orphans: %s", error)
        return []


@shared_task(ignore_result=True)
def look_at_cluster() -> None:
    """Write down which nodes the cluster has, for whoever looks at the deck."""
    if not settings.RAY_ADDRESS or not has_launched():
        return  # and no reason to ask a cluster that may not be there
    note_cluster(cluster=_cluster(), address=settings.RAY_ADDRESS, now=timezone.now())


def _cluster() -> RayCluster:
    return RayCluster(
        settings.RAY_ADDRESS,
        namespace=settings.RAY_NAMESPACE,
        runtime_env=settings.RAY_RUNTIME_ENV,
    )


@shared_task(ignore_result=True)
def look_at_cluster_now() -> None:
    """The same because somebody is looking, whether or not there ever was a fleet."""
    if not settings.RAY_ADDRESS:
        return
    note_cluster(
        cluster=_cluster(),
        address=settings.RAY_ADDRESS,
        unless_newer_than_seconds=FRESH_SECONDS,
        now=timezone.now(),
    )


def ask_for_nodes() -> None:
    """Ask a worker to look at the cluster; somebody is looking at the deck.

    Raises:
        OperationalError: If the broker is away.
    """
    with current_app.connection_for_write(transport_options=IN_A_HURRY) as broker:
        look_at_cluster_now.apply_async(retry=False, expires=FRESH_SECONDS, connection=broker)


def nudge(run_id: int) -> bool:
    """Ask for a pass over one run now; return False if the broker is away.

    A nudge that is lost costs one period of the schedule.
    """
    try:
        with current_app.connection_for_write(transport_options=IN_A_HURRY) as broker:
            reconcile_fleet.apply_async(
                args=[run_id], retry=False, expires=NUDGE_EXPIRES_SECONDS, connection=broker
            )
    except (OperationalError, OSError) as error:
        logger.warning("fleet of run %d is not looked at before the next pass: %s", run_id, error)
        return False
    return True
