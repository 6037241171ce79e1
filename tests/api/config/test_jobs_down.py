"""Stopped background jobs are reported by processes that do not depend on them."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from config import server_watch
from config.celery import NewestJob
from runs.alerts.models import Alert, AlertDelivery
from runs.deployment.models import ProcessHeartbeat
from runs.deployment.services import record_exit, record_heartbeat
from runs.lifecycle.rules import RunStatus
from runs.lifecycle.services.lifecycle import move
from tests.factories import NOON, bearer, make_run, make_user

pytestmark = pytest.mark.django_db

SILENT = "no heartbeats from the process that runs them"


def heartbeats(*, worker: float = 5.0, scheduler: float = 5.0, job: float = 5.0) -> None:
    """Write heartbeats of this many seconds ago, beside those of a web process."""
    now = datetime.now(UTC)
    ages = {"web": 5.0, "worker": worker, "scheduler": scheduler}
    for kind, age in ages.items():
        record_heartbeat(
            kind=kind,
            name=f"{kind}@here",
            started_at=now - timedelta(hours=1),
            details={"job_at": (now - timedelta(seconds=job)).isoformat()}
            if kind == "worker"
            else {},
            now=now - timedelta(seconds=age),
        )


def diagnosis(client: Client, run: str) -> dict[str, Any]:
    answer = client.get(f"/api/v1/runs/{run}/pipeline", headers=bearer("read"))
    assert answer.status_code == 200, answer.content
    found: dict[str, Any] = answer.json()["diagnosis"]
    return found


@pytest.mark.parametrize(
    ("ages", "words"),
    [
        ({"worker": 75.0, "job": 75.0}, SILENT),
        ({"scheduler": 75.0}, "no heartbeats from the scheduler"),
        ({"job": 120.0}, "no job is started"),
    ],
    ids=["worker", "beat", "broker"],
)
def test_a_started_run_names_the_stopped_jobs(
    client: Client, ages: dict[str, float], words: str
) -> None:
    run = make_run(name="waits", num_workers=2)
    move(run_id=run.pk, target=RunStatus.QUEUED, actor="user:ada", now=NOON)
    heartbeats()
    assert diagnosis(client, "waits")["kind"] == "run_not_starting"
    heartbeats(**ages)

    found = diagnosis(client, "waits")

    assert found["kind"] == "jobs_down"
    assert words in found["summary"]
    assert len(found["evidence"]) == 3


def test_a_run_that_does_not_run_needs_no_jobs(client: Client) -> None:
    make_run(name="idle", status=RunStatus.DRAFT)
    heartbeats(worker=75.0)

    assert diagnosis(client, "idle")["kind"] == "not_running"


@pytest.mark.parametrize(("job", "least"), [(5.0, 5.0), (300.0, 300.0)])
def test_the_age_of_the_newest_job_is_a_metric(client: Client, job: float, least: float) -> None:
    heartbeats(job=job)

    text = client.get("/metrics", headers=bearer("metrics")).content.decode()

    (line,) = [line for line in text.splitlines() if line.startswith("rolldeck_jobs_age_seconds ")]
    assert least <= float(line.split()[1]) < least + 60


def test_the_cluster_page_names_the_stopped_jobs(client: Client) -> None:
    client.force_login(make_user())
    heartbeats(worker=75.0)

    jobs = client.get("/api/v1/cluster").json()["jobs"]

    assert (jobs["state"], jobs["problem"]) == ("down", f"jobs do not run: {SILENT}")


def test_a_web_process_raises_delivers_and_resolves_the_alert(settings: Settings) -> None:
    # Nothing listens there: the attempt proves the delivery.
    settings.ROLLDECK_ALERT_WEBHOOKS = ["http://127.0.0.1:9/alert"]
    heartbeats(worker=75.0)

    server_watch.watch()

    alert = Alert.objects.get()
    assert (alert.kind, alert.severity, alert.run_id) == ("jobs_down", "error", None)
    assert alert.message == f"background jobs do not run: {SILENT}"
    assert AlertDelivery.objects.get().attempts == 1
    heartbeats()
    server_watch.watch()
    assert Alert.objects.get().state == "resolved"


def test_a_web_process_evaluates_no_other_alert() -> None:
    run = make_run(name="broken")
    for target in (RunStatus.QUEUED, RunStatus.FAILED):
        move(run_id=run.pk, target=target, actor="platform", now=NOON)

    server_watch.watch()

    assert not Alert.objects.exists()


def test_an_exit_is_counted_in_a_series() -> None:
    counts = []
    for minutes in (0, 1, 30, 91, 92):
        row = record_exit(
            host="a",
            part="jobs",
            reason="jobs ended (signal SIGKILL)",
            log="x\0y" * 2000,
            now=NOON + timedelta(minutes=minutes),
        )
        counts.append((row.exits, row.first_at.minute))

    assert counts == [(1, 0), (2, 0), (3, 0), (1, 31), (2, 31)]
    assert (len(row.log), "\0" in row.log) == (4000, False)


@pytest.mark.parametrize(
    ("minutes", "is_alert", "is_shown"),
    [(0, True, True), (9, True, True), (11, False, True), (25 * 60, False, False)],
)
def test_exits_raise_an_alert_and_are_shown_for_a_day(
    client: Client, minutes: int, is_alert: bool, is_shown: bool
) -> None:
    at = datetime.now(UTC) - timedelta(minutes=minutes)
    code, signal = "ray ended (exit code 1)", "beat ended (signal SIGBUS)"
    for part, reason in (("ray", code), ("beat", signal), ("ray", code)):
        record_exit(host="a", part=part, reason=reason, log="secret=1", now=at)
    server_watch.watch()
    client.force_login(make_user())

    exits = client.get("/api/v1/cluster").json()["exits"]

    assert sorted((row["part"], row["exits"], row["log"]) for row in exits) == (
        [("beat", 1, None), ("ray", 2, None)] if is_shown else []
    )
    messages = sorted(Alert.objects.filter(kind="part_exited").values_list("message", flat=True))
    assert messages == (
        [
            "beat ended (signal SIGBUS) on a",
            f"ray ended (exit code 1) on a, exit 2 since {at:%H:%M} UTC",
        ]
        if is_alert
        else []
    )
    assert "secret" not in str(list(Alert.objects.values("message", "details")))


def test_the_log_of_an_exit_is_shown_to_administrators(client: Client) -> None:
    record_exit(host="a", part="ray", reason="r", log="no memory", now=datetime.now(UTC))
    client.force_login(make_user(role="admin"))

    (row,) = client.get("/api/v1/cluster").json()["exits"]

    assert row["log"] == "no memory"


def test_a_worker_reports_the_time_of_its_newest_job() -> None:
    started = 0
    newest = NewestJob(lambda: started)
    first = newest.read()
    assert newest.read() == first
    started = 3
    later = newest.read()

    assert later > first
    assert newest.read() == later


def test_old_workers_without_that_time_are_not_idle(client: Client) -> None:
    heartbeats(job=600.0)
    ProcessHeartbeat.objects.update(details={})
    client.force_login(make_user())

    assert "jobs do not run" not in client.get("/api/v1/cluster").json()["jobs"]["problem"]
