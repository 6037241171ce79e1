"""Resource series over the API: from a fleet's report to the lines of a chart."""

from typing import Any

import msgspec
import pytest
from rest_framework.test import APIClient

from rollouts.control.models import FleetWorker
from rollouts.metrics.models import MetricSeries
from rollouts.metrics.services.measuring import measure_resources
from runs.lifecycle.models import Run
from tests.factories import bearer
from tests.fake_cluster import FakeCluster
from tests.integration.rollouts.report_factories import fleet, launched, report, worker

pytestmark = pytest.mark.django_db

GIB = 1 << 30
MEMORY = "rolldeck/resources/memory_bytes"


@pytest.fixture
def run() -> Run:
    return launched(FakeCluster())


def send(run: Run, sequence: int, **usage: Any) -> Any:
    given = msgspec.to_builtins(report(run, worker(env_steps=10), sequence=sequence))
    given["workers"][0] |= usage
    return APIClient().generic(
        "POST",
        "/api/v1/runs/pole/fleet/report",
        msgspec.json.encode(given).decode(),
        content_type="application/json",
        headers=bearer("worker", run=run),
    )


def read(path: str, run: Run) -> Any:
    answer = APIClient().get(f"/api/v1/runs/pole/{path}", headers=bearer("read", run=run))
    assert answer.status_code == 200, answer.content
    return answer.json()


def measure(run: Run) -> int:
    at = fleet(run).observed_at
    assert at is not None
    return measure_resources(now=at)


def test_a_reported_measurement_becomes_a_point_of_a_line(run: Run) -> None:
    assert send(run, 1, cpu_percent=150.0, memory_bytes=2 * GIB).status_code == 200

    assert measure(run) == 1

    [line] = read(f"metrics/lines?names={MEMORY}&x=time", run)["lines"]
    assert (line["name"], line["last"]) == (MEMORY, [2 * GIB])
    names = read("metrics/names", run)["results"]
    assert "rolldeck/resources/worker/0/cpu_cores" in names
    assert not any("gpu" in name for name in names)


@pytest.mark.parametrize("usage", [{"cpu_percent": -3.0}, {"cpu_percent": 50.0, "gpu_percent": -1}])
def test_an_invalid_value_leaves_no_point_and_the_report_is_accepted(
    run: Run, usage: dict[str, Any]
) -> None:
    assert send(run, 1, memory_bytes=GIB, **usage).status_code == 200

    assert measure(run) == 0

    assert not MetricSeries.objects.exists()
    [shown] = read("fleet", run)["workers"]
    assert (shown["env_steps"], shown["cpu_percent"], shown["memory_bytes"]) == (10, None, None)


def test_a_negative_amount_of_bytes_is_refused_by_field_and_nothing_is_stored(run: Run) -> None:
    answer = send(run, 1, cpu_percent=50.0, memory_bytes=-1)

    assert answer.status_code == 400
    assert [error["field"] for error in answer.json()["errors"]] == ["workers[0].memory_bytes"]
    assert not FleetWorker.objects.exists()
