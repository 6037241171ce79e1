"""Schedule of the periodic jobs."""

from typing import Any, Final

SCHEDULE: Final[dict[str, dict[str, Any]]] = {
    # A lost message delays its job by at most one period.
    "reconcile fleets": {
        "task": "rollouts.jobs.reconcile_fleets",
        "schedule": 3.0,
        "options": {"expires": 3.0},
    },
    "expire recording requests": {
        "task": "rollouts.jobs.give_up_recordings",
        "schedule": 30.0,
        "options": {"expires": 30.0},
    },
    "pack metrics": {
        "task": "rollouts.jobs.pack_metrics",
        "schedule": 30.0,
        "options": {"expires": 30.0},
    },
    "measure runs": {
        "task": "rollouts.jobs.measure_runs",
        "schedule": 10.0,
        "options": {"expires": 10.0},
    },
    "measure resources": {
        "task": "rollouts.jobs.measure_resources",
        "schedule": 10.0,
        "options": {"expires": 10.0},
    },
    "diagnose runs": {
        "task": "rollouts.jobs.diagnose_runs",
        "schedule": 10.0,
        "options": {"expires": 10.0},
    },
    "forget outcomes": {
        "task": "rollouts.jobs.delete_old_outcomes",
        "schedule": 600.0,
        "options": {"expires": 600.0},
    },
    "forget machine samples": {
        "task": "rollouts.jobs.delete_old_machine_samples",
        "schedule": 600.0,
        "options": {"expires": 600.0},
    },
    "forget silent parts": {
        "task": "runs.jobs.delete_silent_processes",
        "schedule": 600.0,
        "options": {"expires": 600.0},
    },
    "forget login attempts": {
        "task": "runs.jobs.delete_old_login_attempts",
        "schedule": 600.0,
        "options": {"expires": 600.0},
    },
    "probe the cluster": {
        "task": "rollouts.jobs.record_cluster",
        "schedule": 60.0,
        "options": {"expires": 60.0},
    },
    "watch conditions": {
        "task": "runs.jobs.watch_conditions",
        "schedule": 5.0,
        "options": {"expires": 5.0},
    },
    "send webhooks": {
        "task": "runs.alerts.jobs.send_webhooks",
        "schedule": 5.0,
        "options": {"expires": 5.0},
    },
    "forget alerts": {
        "task": "runs.jobs.delete_old_alerts",
        "schedule": 3600.0,
        "options": {"expires": 3600.0},
    },
    "end orphans": {
        "task": "rollouts.jobs.end_orphans",
        "schedule": 60.0,
        "options": {"expires": 60.0},
    },
    "reclaim expired leases": {
        "task": "buffer.jobs.reclaim_expired_leases",
        "schedule": 5.0,
        "options": {"expires": 5.0},
    },
    "audit ledgers": {
        "task": "buffer.jobs.audit_ledgers",
        "schedule": 15.0,
        "options": {"expires": 15.0},
    },
    "turn segments": {
        "task": "buffer.jobs.rotate_segments",
        "schedule": 10.0,
        "options": {"expires": 10.0},
    },
    "work on archives": {
        "task": "buffer.jobs.run_archive_jobs",
        "schedule": 15.0,
        "options": {"expires": 15.0},
    },
    "digest groups": {
        "task": "buffer.jobs.digest_groups",
        "schedule": 2.0,
        "options": {"expires": 2.0},
    },
}
