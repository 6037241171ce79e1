"""Machines have one sample a minute, from the reports of their workers."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from rest_framework.test import APIClient

from rolldeck.wire import MachineUsage, WorkerReport
from rollouts.control.models import MachineSample
from rollouts.control.queries.machines import (
    HOURS_AT_MOST,
    POINTS_AT_MOST,
    machine_history,
    step_seconds,
)
from rollouts.control.services.machines import (
    KEPT_FOR,
    delete_old_machine_samples,
    record_cluster_nodes,
    record_machine_samples,
)
from tests.factories import bearer
from tests.fake_cluster import FakeCluster
from tests.integration.rollouts.report_factories import NOON, later, launched, report, worker

pytestmark = pytest.mark.django_db

GIB = 1 << 30
NAN = float("nan")
FULL = MachineUsage(
    cpu_cores=3.5,
    cpus=8,
    memory_bytes=10 * GIB,
    memory_total_bytes=64 * GIB,
    gpus=2,
    gpu_percent=40.0,
    gpu_memory_bytes=20 * GIB,
    gpu_memory_total_bytes=160 * GIB,
)


@pytest.fixture(autouse=True)
def cluster() -> FakeCluster:
    """A cluster of the nodes `head-id` and `gpu-id`, as read at noon."""
    cluster = FakeCluster()
    cluster.join("gpu", cpus=8.0)
    record_cluster_nodes(cluster=cluster, address="127.0.0.1:1", now=NOON)
    return cluster


def on(node: str, index: int = 0, **changes: Any) -> WorkerReport:
    return worker(index, node_id=node, machine=msgspec.structs.replace(FULL, **changes))


def record(*workers: WorkerReport, seconds: float = 0) -> int:
    return record_machine_samples(workers=workers, now=later(seconds))


def history(node: str, query: str = "") -> Any:
    return APIClient().get(f"/api/v1/cluster/nodes/{node}/usage{query}", headers=bearer("read"))


def test_the_first_measurement_of_a_minute_is_stored() -> None:
    assert record(on("gpu-id"), on("head-id", 1), worker(2), seconds=5) == 2
    assert record(on("gpu-id", cpu_cores=7.0), seconds=59) == 0
    assert record(on("gpu-id", cpu_cores=6.0), seconds=60) == 1

    rows = MachineSample.objects.filter(node="gpu-id").order_by("at")
    assert list(rows.values_list("at", "cpu_cores")) == [(NOON, 3.5), (later(60), 6.0)]
    sample = msgspec.convert(rows.values().first(), MachineUsage)
    assert sample == FULL


@pytest.mark.parametrize(
    "changes",
    [
        {"cpu_cores": NAN},
        {"cpu_cores": -1.0},
        {"memory_bytes": -1},
        {"gpu_percent": float("inf")},
        {"gpu_percent": 100.5},
    ],
)
def test_an_invalid_measurement_is_not_stored_at_all(changes: dict[str, Any]) -> None:
    assert record(on("gpu-id", **changes)) == 0
    assert not MachineSample.objects.exists()


def test_a_machine_that_the_cluster_does_not_list_is_not_stored() -> None:
    assert record(on("mars-id"), on("")) == 0
    assert not MachineSample.objects.exists()


def test_a_report_over_the_api_stores_the_sample_of_its_machine() -> None:
    run = launched(FakeCluster())
    answer = APIClient().generic(
        "POST",
        f"/api/v1/runs/{run.name}/fleet/report",
        msgspec.json.encode(report(run, on("gpu-id"))).decode(),
        content_type="application/json",
        headers=bearer("worker", run=run),
    )

    assert answer.status_code == 200, answer.content
    assert MachineSample.objects.get().node == "gpu-id"
    usage = history("gpu-id", "?hours=1").json()
    assert (usage["cpus"], usage["gpus"], usage["memory_total_bytes"]) == (8, 2, 64 * GIB)
    assert usage["points"][-1]["cpu_cores"] in (3.5, None)
    assert {point["cpu_cores"] for point in usage["points"][-2:]} >= {3.5}


def test_a_history_has_means_and_nulls_where_nothing_was_measured() -> None:
    for minute, cores in [(0, 1.0), (1, 3.0), (6, 4.0)]:
        record(on("gpu-id", cpu_cores=cores, gpu_percent=None), seconds=60 * minute)

    usage = machine_history("gpu-id", hours=12, now=later(479))

    assert usage.step_seconds == 120
    assert len(usage.points) == 360
    assert [point.cpu_cores for point in usage.points[-4:]] == [2.0, None, None, 4.0]
    assert [point.at for point in usage.points[-4:]] == [later(120 * step) for step in range(4)]
    assert {point.gpu_percent for point in usage.points} == {None}
    assert usage.points[-3].memory_bytes is None


def test_a_machine_without_samples_has_an_empty_history_and_an_unknown_one_is_not_found() -> None:
    empty = history("head-id").json()
    unknown = history("mars-id")

    assert (empty["cpus"], empty["step_seconds"], len(empty["points"])) == (None, 240, 360)
    assert all(point["cpu_cores"] is None for point in empty["points"])
    assert (unknown.status_code, "mars-id" in unknown.json()["detail"]) == (404, True)


@pytest.mark.parametrize("hours", ["0", "169", "x", "-1", "1.5"])
def test_a_range_out_of_bounds_is_refused_by_name(hours: str) -> None:
    answer = history("head-id", f"?hours={hours}")

    assert answer.status_code == 400
    [error] = answer.json()["errors"]
    assert error["field"] == "hours"
    assert "1 to 168" in error["message"]


def test_a_history_has_at_most_360_points_at_every_range() -> None:
    ranges = range(1, HOURS_AT_MOST + 1)

    assert max(hours * 3600 / step_seconds(hours) for hours in ranges) <= POINTS_AT_MOST
    assert step_seconds(1) == 60
    assert step_seconds(HOURS_AT_MOST) == 28 * 60


def test_samples_are_kept_for_a_week() -> None:
    record(on("gpu-id"))
    record(on("gpu-id"), seconds=60)

    assert delete_old_machine_samples(now=NOON + KEPT_FOR + timedelta(seconds=1)) == 1
    assert MachineSample.objects.get().at == later(60)
