"""Jobs run through the broker, and requests succeed without one."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection

from rollouts import jobs
from runs.lifecycle.models import Run
from runs.lifecycle.rules import RunVerb
from tests import processes
from tests.integration.rollouts.report_factories import change_status, draft
from tests.waiting import within

ROOT = Path(__file__).resolve().parents[3]


def trouble(run: Run) -> str:
    return Run.objects.get(pk=run.pk).status_reason


@pytest.fixture(scope="module")
def job_worker(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A real Celery worker on the test's database and broker; the path of its log."""
    name = connection.settings_dict["NAME"]
    url = str(settings.DATABASE_URL).replace("/rolldeck?", f"/{name}?", 1)
    assert name in url
    log = tmp_path_factory.mktemp("jobs") / "celery.log"
    paths = os.pathsep.join(str(path) for path in (ROOT, ROOT / "platform", ROOT / "client"))
    variables = {"DATABASE_URL": url, "RAY_ADDRESS": "127.0.0.1:1", "PYTHONPATH": paths}
    with log.open("wb") as out:
        worker = processes.start(
            [sys.executable, "-m", "celery", "-A", "config", "worker", "-c", "1", "-l", "INFO"],
            env={**os.environ, **variables},
            cwd=ROOT,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        assert within(120, lambda: b" ready." in log.read_bytes()), log.read_text()
        yield log
    finally:
        worker.send_signal(signal.SIGTERM)
        worker.wait(60)


@pytest.mark.django_db(transaction=True)
def test_a_start_request_reaches_the_reconciler_through_the_broker(job_worker: Path) -> None:
    run = draft()

    change_status(run, RunVerb.START)

    seen = within(60, lambda: trouble(run) != "")
    assert seen, job_worker.read_text()
    assert trouble(run).startswith("no Ray cluster at 127.0.0.1:1")


@pytest.mark.django_db(transaction=True)
def test_the_periodic_job_finds_a_run_whose_notice_was_lost(job_worker: Path) -> None:
    run = draft()
    change_status(run, RunVerb.START)
    assert within(60, lambda: trouble(run) != "")
    Run.objects.filter(pk=run.pk).update(status_reason="")
    run.fleet.delete()

    jobs.reconcile_fleets()

    assert within(60, lambda: trouble(run) != ""), job_worker.read_text()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("where", ["unix:///tmp/nobody-listens.sock", "redis://127.0.0.1:1/0"])
def test_a_stopped_broker_neither_fails_nor_delays_a_start(where: str) -> None:
    """In a subprocess, because a Celery app keeps its first broker."""
    script = (
        "import django, time; django.setup(); import rollouts.jobs as jobs; "
        "began = time.monotonic(); sent = jobs.queue_reconcile(1); "
        "print(sent, time.monotonic() - began < 10)"
    )
    paths = os.pathsep.join(str(path) for path in (ROOT, ROOT / "platform", ROOT / "client"))

    done = processes.run(
        [sys.executable, "-c", script],
        env={**os.environ, "REDIS_URL": where, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )

    assert done.stdout.split() == ["False", "True"]
