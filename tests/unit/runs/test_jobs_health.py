"""The health of the background jobs follows from the ages of their last signs of life."""

from typing import Any

import pytest

from runs.deployment.rules import JobsHealth

GOOD: dict[str, float | None] = {
    "observed_seconds": 600.0,
    "worker_seconds": 12.0,
    "scheduler_seconds": 12.0,
    "job_seconds": 14.0,
}
WORKER, SCHEDULER = "the process that runs them", "the scheduler"
NEVER = {"worker_seconds": None, "scheduler_seconds": None, "job_seconds": None}


@pytest.mark.parametrize(
    ("ages", "problem"),
    [
        ({}, ""),
        ({"worker_seconds": 44.0}, ""),
        ({"worker_seconds": 46.0}, f"no heartbeats from {WORKER}"),
        ({"scheduler_seconds": 46.0}, f"no heartbeats from {SCHEDULER}"),
        (
            {"worker_seconds": 50.0, "scheduler_seconds": 50.0},
            f"no heartbeats from {WORKER} and {SCHEDULER}",
        ),
        ({"job_seconds": 89.0}, ""),
        ({"job_seconds": 91.0}, "no job is started, although their processes send heartbeats"),
        ({"worker_seconds": 95.0, "job_seconds": 95.0}, f"no heartbeats from {WORKER}"),
        (NEVER, f"no heartbeats from {WORKER} and {SCHEDULER}"),
        (NEVER | {"observed_seconds": 40.0}, ""),
        ({"worker_seconds": 600.0, "observed_seconds": 20.0}, ""),
        (NEVER | {"observed_seconds": 0.0}, ""),
        ({"job_seconds": None}, ""),
    ],
    ids=[
        "all fresh",
        "late worker",
        "silent worker",
        "silent scheduler",
        "both silent",
        "busy workers",
        "no job starts",
        "the worker explains missing jobs",
        "never seen",
        "never seen, but young",
        "old rows of the server before its restart",
        "no web process",
        "a worker of an older version",
    ],
)
def test_the_problem_names_each_silent_process(ages: dict[str, Any], problem: str) -> None:
    assert JobsHealth(**(GOOD | ages)).problem == problem


@pytest.mark.parametrize(
    ("ages", "seconds"),
    [
        ({}, 14.0),
        ({"job_seconds": None}, 12.0),
        (NEVER, 600.0),
    ],
    ids=["of the last job", "of the last heartbeat", "of the server"],
)
def test_the_age_grows_also_without_any_job(ages: dict[str, Any], seconds: float) -> None:
    assert JobsHealth(**(GOOD | ages)).age_seconds == seconds


def test_the_evidence_has_the_ages() -> None:
    assert JobsHealth(**(GOOD | {"worker_seconds": 180.0, "job_seconds": None})).evidence == [
        "last heartbeat of a process that runs jobs: 3 min ago",
        "last heartbeat of the scheduler: 12 s ago",
        "last start of a job: none received",
    ]
