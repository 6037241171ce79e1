"""Background jobs: reconciliation of fleets, measurement, packing and retention."""

import logging
from typing import Final

from celery import current_app, shared_task
from django.conf import settings
from django.utils import timezone
from kombu.exceptions import OperationalError

from rollouts.control.queries.fleets import has_launched, runs_to_reconcile
from rollouts.control.services import machines, reconciliation, recordings
from rollouts.control.services.machines import record_cluster_nodes
from rollouts.control.services.ray_cluster import ClusterUnreachable, configured_cluster
from rollouts.control.services.reconciliation import reconcile
from rollouts.curriculum.services import failure_budget, outcomes
from rollouts.diagnosis import services as diagnosis
from rollouts.metrics.services import measuring, metrics
from runs.alerts.jobs import IN_A_HURRY

logger = logging.getLogger(__name__)

NUDGE_EXPIRES_SECONDS: Final = 30
FRESH_SECONDS: Final = 4.0
"""Age up to which a reading of the cluster is reused."""


@shared_task(name="rollouts.jobs.reconcile_fleets", ignore_result=True)
def reconcile_fleets() -> int:
    """Start a reconciler pass over each run whose fleet needs one; return their number.

    Each run has a separate job, so that one slow cluster call does not delay other runs.
    """
    return sum(queue_reconcile(run_id) for run_id in runs_to_reconcile(now=timezone.now()))


@shared_task(name="rollouts.jobs.give_up_recordings", ignore_result=True)
def give_up_recordings() -> int:
    """Mark recordings as failed that can no longer finish; return their number."""
    return recordings.give_up_recordings(now=timezone.now())


@shared_task(name="rollouts.jobs.pack_metrics", ignore_result=True)
def pack_metrics() -> int:
    """Pack old samples of metrics; return the number of chunks created."""
    return metrics.pack_metrics(now=timezone.now())


@shared_task(name="rollouts.jobs.measure_runs", ignore_result=True)
def measure_runs() -> int:
    """Measure active runs for their charts; return their number."""
    return measuring.measure_runs(now=timezone.now())


@shared_task(name="rollouts.jobs.measure_resources", ignore_result=True)
def measure_resources() -> int:
    """Store the resource usage of reporting fleets; return the number of runs stored."""
    return measuring.measure_resources(now=timezone.now())


@shared_task(name="rollouts.jobs.diagnose_runs", ignore_result=True)
def diagnose_runs() -> int:
    """Record the diagnosis of each active run; return their number."""
    return diagnosis.record_diagnoses(now=timezone.now())


@shared_task(name="rollouts.jobs.apply_failure_budgets", ignore_result=True)
def apply_failure_budgets() -> int:
    """Pause runs, and stop lessons, that exceed their failure budget; return their number."""
    return failure_budget.apply_failure_budgets(now=timezone.now())


@shared_task(name="rollouts.jobs.delete_old_outcomes", ignore_result=True)
def delete_old_outcomes() -> int:
    """Delete old outcomes of lesson tasks; return their number."""
    return outcomes.delete_old_outcomes(now=timezone.now())


@shared_task(name="rollouts.jobs.delete_old_machine_samples", ignore_result=True)
def delete_old_machine_samples() -> int:
    """Delete old samples of machines; return their number."""
    return machines.delete_old_machine_samples(now=timezone.now())


@shared_task(name="rollouts.jobs.reconcile_fleet", ignore_result=True)
def reconcile_fleet(run_id: int) -> None:
    """Bring the fleet of one run one step closer to its desired state."""
    reconcile(
        run_id=run_id,
        cluster=configured_cluster(),
        platform_url=settings.ROLLDECK_INTERNAL_URL,
        now=timezone.now(),
    )


@shared_task(name="rollouts.jobs.end_orphans", ignore_result=True)
def end_orphans() -> list[str]:
    """End managers on the cluster that belong to no run; return their names."""
    if not has_launched():
        return []  # do not call a cluster that may not exist
    try:
        return reconciliation.end_orphans(
            cluster=configured_cluster(),
            platform_url=settings.ROLLDECK_INTERNAL_URL,
            now=timezone.now(),
        )
    except ClusterUnreachable as error:
        logger.info("orphaned managers not checked: %s", error)
        return []


@shared_task(name="rollouts.jobs.record_cluster", ignore_result=True)
def record_cluster() -> None:
    """Store the cluster's nodes for the cluster page."""
    if not settings.RAY_ADDRESS or not has_launched():
        return  # do not call a cluster that may not exist
    record_cluster_nodes(
        cluster=configured_cluster(), address=settings.RAY_ADDRESS, now=timezone.now()
    )


@shared_task(name="rollouts.jobs.record_cluster_now", ignore_result=True)
def record_cluster_now() -> None:
    """Store the cluster's nodes for a waiting user, even if no fleet was ever launched."""
    if not settings.RAY_ADDRESS:
        return
    record_cluster_nodes(
        cluster=configured_cluster(),
        address=settings.RAY_ADDRESS,
        unless_newer_than_seconds=FRESH_SECONDS,
        now=timezone.now(),
    )


def queue_cluster_reading() -> None:
    """Queue a reading of the cluster for a waiting user.

    Raises:
        OperationalError: If the broker is unreachable.
    """
    with current_app.connection_for_write(transport_options=IN_A_HURRY) as broker:
        record_cluster_now.apply_async(retry=False, expires=FRESH_SECONDS, connection=broker)


def queue_reconcile(run_id: int) -> bool:
    """Queue a reconciler pass over one run; return False if the broker is unreachable.

    A lost request delays the pass by one period of the schedule.
    """
    try:
        with current_app.connection_for_write(transport_options=IN_A_HURRY) as broker:
            reconcile_fleet.apply_async(
                args=[run_id], retry=False, expires=NUDGE_EXPIRES_SECONDS, connection=broker
            )
    except (OperationalError, OSError) as error:
        logger.warning("fleet of run %d waits for the next scheduled pass: %s", run_id, error)
        return False
    return True
