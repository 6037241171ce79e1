"""Celery's application and its schedule."""

import os
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from celery import Celery
from celery.signals import beat_init, celeryd_init, worker_init, worker_process_init, worker_ready

from config.tracing import trace_jobs
from rollouts.fleet.process import child_environment

# Schedule of the periodic jobs.

_JOBS: Final = {
    "reconcile fleets": ("rollouts.jobs.reconcile_fleets", 3.0),
    "expire recording requests": ("rollouts.jobs.give_up_recordings", 30.0),
    "pack metrics": ("rollouts.jobs.pack_metrics", 30.0),
    "measure runs": ("rollouts.jobs.measure_runs", 10.0),
    "measure resources": ("rollouts.jobs.measure_resources", 10.0),
    "diagnose runs": ("rollouts.jobs.diagnose_runs", 10.0),
    "apply failure budgets": ("rollouts.jobs.apply_failure_budgets", 5.0),
    "forget outcomes": ("rollouts.jobs.delete_old_outcomes", 600.0),
    "forget machine samples": ("rollouts.jobs.delete_old_machine_samples", 600.0),
    "forget silent parts": ("runs.jobs.delete_silent_processes", 600.0),
    "forget login attempts": ("runs.jobs.delete_old_login_attempts", 600.0),
    "probe the cluster": ("rollouts.jobs.record_cluster", 60.0),
    "remove deleted runs": ("runs.jobs.remove_deleted_runs", 5.0),
    "watch conditions": ("runs.jobs.watch_conditions", 5.0),
    "send webhooks": ("runs.alerts.jobs.send_webhooks", 5.0),
    "forget alerts": ("runs.jobs.delete_old_alerts", 3600.0),
    "end orphans": ("rollouts.jobs.end_orphans", 60.0),
    "reclaim expired leases": ("buffer.jobs.reclaim_expired_leases", 5.0),
    "audit ledgers": ("buffer.jobs.audit_ledgers", 15.0),
    "turn segments": ("buffer.jobs.rotate_segments", 10.0),
    "work on archives": ("buffer.jobs.run_archive_jobs", 15.0),
    "digest groups": ("buffer.jobs.digest_groups", 2.0),
}
"""By name: the job, and the seconds between two starts."""
# A lost message delays its job by at most one period.
SCHEDULE: Final[dict[str, dict[str, Any]]] = {
    name: {"task": job, "schedule": seconds, "options": {"expires": seconds}}
    for name, (job, seconds) in _JOBS.items()
}


# Celery configuration; each app's jobs.py holds its background jobs.

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings.base")

app = Celery("rolldeck")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.conf.update(
    task_serializer="json",
    result_serializer="json",
    accept_content=["json"],
    task_ignore_result=True,
    # Ray writes to the real stdout of its process; Celery's proxy has no file number.
    worker_redirect_stdouts=False,
    worker_hijack_root_logger=False,
    worker_prefetch_multiplier=1,
    task_acks_late=True,
    # Jobs are short reconcilers; a hanging one is ended, and the next pass completes the work.
    task_soft_time_limit=45,
    task_time_limit=60,
    broker_connection_retry_on_startup=True,
    beat_schedule=SCHEDULE,
    beat_scheduler="config.scheduler:SteadyScheduler",
    timezone="UTC",
)
app.autodiscover_tasks(related_name="jobs")


@celeryd_init.connect
@beat_init.connect
def hide_secrets(**_: Any) -> None:
    """Hide the secrets in the environment before pool processes start."""
    child_environment.hide_this_process()


@worker_init.connect
def claim_folders(**_: Any) -> None:
    """Exit if the folders are not those of the database: retention would delete other files."""
    from config.own_folders import claim_or_exit  # Django's applications load first

    claim_or_exit()


@worker_process_init.connect
def die_with_worker(**_: Any) -> None:
    """End a pool process with its worker, even a killed one; jobs may end at any point."""
    child_environment.die_with_parent(os.getppid())


@worker_process_init.connect
def start_tracing_of_jobs(**_: Any) -> None:
    """Start tracing here: the thread that sends spans does not survive the fork of a process."""
    trace_jobs()


class NewestJob:
    """Time at which a worker last started a job, as precise as the interval of its readings.

    Args:
        count: Returns the number of jobs that it has started.
    """

    def __init__(self, count: Callable[[], int]) -> None:
        self._count = count
        self._started = count()
        self._at = datetime.now(UTC)

    def read(self) -> datetime:
        """Return the time; before the first job, that of the worker's start."""
        started = self._count()
        if started != self._started:
            self._at, self._started = datetime.now(UTC), started
        return self._at


@worker_ready.connect
def start_worker_heartbeat(sender: Any, **_: Any) -> None:
    """Start the worker's heartbeats, with its queues, its concurrency and its newest job."""
    from celery.worker import state

    from config import heartbeats  # Django's applications load first

    queues = sorted(sender.app.amqp.queues.consume_from)
    details = {"queues": queues, "concurrency": sender.controller.concurrency}
    newest = NewestJob(lambda: sum(state.total_count.values()))
    heartbeats.start(
        "worker",
        name=str(sender.hostname),
        read_details=lambda: details | {"job_at": newest.read().isoformat()},
        forks=True,
    )


@beat_init.connect
def start_scheduler_heartbeat(**_: Any) -> None:
    """Start the heartbeats of the process that starts the periodic jobs."""
    from config import heartbeats

    heartbeats.start("scheduler", forks=True)
