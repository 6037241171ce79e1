"""Resource usage of fleets becomes series of their runs, with gaps where nothing is measured."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from rolldeck.wire import WorkerReport
from rollouts.control.models import FleetWorker
from rollouts.metrics.models import MetricSample, MetricSeries
from rollouts.metrics.rules import WORKERS_LISTED
from rollouts.metrics.services.measuring import measure_resources
from runs.alerts.models import Alert
from runs.alerts.schemas import SetAlertRule
from runs.alerts.services import alert_rules, alerts
from runs.lifecycle.models import Run
from tests.fake_cluster import FakeCluster
from tests.integration.rollouts.report_factories import (
    NOON,
    accept,
    later,
    launched,
    report,
    rolling,
    worker,
)

pytestmark = pytest.mark.django_db

GIB = 1 << 30
NAN = float("nan")
PREFIX = "rolldeck/resources/"


def used(index: int, cpu: float | None, gib: int | None, **fields: Any) -> WorkerReport:
    memory = None if gib is None else gib * GIB
    return worker(index, cpu_percent=cpu, memory_bytes=memory, **fields)


def on_gpu(index: int, percent: float, gib: int) -> WorkerReport:
    return used(index, 50.0, 1, gpu_percent=percent, gpu_memory_bytes=gib * GIB)


def measure(run: Run, *workers: WorkerReport, seconds: int = 0) -> dict[str, float]:
    """Accept a report, measure, and return the new values without the common prefix."""
    accept(run, report(run, *workers, sequence=1 + seconds), now=later(seconds))
    measure_resources(now=later(seconds))
    return stored(run, seconds)


def stored(run: Run, seconds: int) -> dict[str, float]:
    rows = MetricSample.objects.filter(run=run, at=later(seconds))
    found = dict(rows.values_list("series__name", "value"))
    assert all(name.startswith(PREFIX) for name in found)
    return {name.removeprefix(PREFIX): value for name, value in found.items()}


def at_seconds(run: Run, name: str) -> list[float]:
    rows = MetricSample.objects.filter(run=run, series__name=PREFIX + name).order_by("id")
    return [(at - NOON) / timedelta(seconds=1) for at in rows.values_list("at", flat=True)]


def test_a_fleet_has_sums_and_the_spread_over_its_workers() -> None:
    run = launched(FakeCluster())

    values = measure(run, used(0, 50.0, 1), used(1, 250.0, 3))

    assert {name: value for name, value in values.items() if "worker/" not in name} == {
        "workers": 2,
        "cpu_cores": 3.0,
        "memory_bytes": 4 * GIB,
        "worker_cpu_cores/min": 0.5,
        "worker_cpu_cores/mean": 1.5,
        "worker_cpu_cores/max": 2.5,
        "worker_memory_bytes/min": GIB,
        "worker_memory_bytes/mean": 2 * GIB,
        "worker_memory_bytes/max": 3 * GIB,
    }


def test_gpus_are_measured_only_where_there_are_some() -> None:
    run = launched(FakeCluster())

    values = measure(run, on_gpu(0, 20.0, 2), on_gpu(1, 60.0, 6), used(2, 10.0, 1))

    assert values["workers"] == 3
    assert [values[f"gpu_percent/{of}"] for of in ("min", "mean", "max")] == [20, 40, 60]
    assert values["gpu_memory_bytes/mean"] == 4 * GIB
    assert values["worker/1/gpu_percent"] == 60
    assert "worker/2/gpu_percent" not in values


def test_a_small_fleet_has_series_of_each_worker_and_a_large_one_has_none() -> None:
    small, large = launched(FakeCluster(), "small"), launched(FakeCluster(), "large")

    few = measure(small, *(used(index, 100.0, 1) for index in range(WORKERS_LISTED)))
    many = measure(large, *(used(index, 100.0, 1) for index in range(2000)))

    assert few["worker/7/cpu_cores"] == 1.0
    assert few["worker/7/memory_bytes"] == GIB
    assert (many["workers"], many["cpu_cores"]) == (2000, 2000)
    assert len(many) == 9


def test_a_worker_with_an_invalid_value_is_not_counted_at_all() -> None:
    run = launched(FakeCluster())

    values = measure(
        run, used(0, 50.0, 1), used(1, NAN, 3), used(2, -5.0, 3), used(3, 50.0, 3, gpu_percent=NAN)
    )

    assert (values["workers"], values["cpu_cores"], values["memory_bytes"]) == (1, 0.5, GIB)
    rows = FleetWorker.objects.exclude(index=0).values_list("cpu_percent", "memory_bytes")
    assert set(rows) == {(None, None)}


def test_workers_that_ended_or_started_just_now_are_not_counted() -> None:
    run = launched(FakeCluster())

    values = measure(
        run,
        used(0, 50.0, 1),
        used(1, 50.0, 1, state="stopped"),
        used(2, 50.0, 1, state="failed"),
        used(3, None, 1),
    )

    assert (values["workers"], values["memory_bytes"]) == (1, GIB)


def test_a_fleet_without_measurements_gets_no_series() -> None:
    run = rolling(FakeCluster())

    assert measure_resources(now=NOON) == 0
    assert not MetricSeries.objects.filter(run=run).exists()


def test_a_waiting_fleet_is_measured_and_a_doubled_beat_is_not_counted() -> None:
    run = launched(FakeCluster())
    paused = used(0, 0.0, 1, state="paused")

    assert measure(run, paused)["cpu_cores"] == 0
    assert measure(run, paused, seconds=1) == {}
    assert measure(run, paused, seconds=10)["memory_bytes"] == GIB


def test_a_lost_measurement_leaves_one_zero_and_a_gap_in_the_chart() -> None:
    run = launched(FakeCluster())
    measure(run, used(0, 50.0, 1))
    assert measure(run, used(0, NAN, 1), seconds=10) == {"workers": 0}
    assert measure(run, used(0, NAN, 1), seconds=20) == {}
    measure(run, used(0, 50.0, 2), seconds=30)

    assert at_seconds(run, "memory_bytes") == [0, 30]
    assert at_seconds(run, "workers") == [0, 10, 30]


def test_a_silent_fleet_ends_its_series_with_zero_workers() -> None:
    run = launched(FakeCluster())
    measure(run, used(0, 50.0, 1))

    assert measure_resources(now=later(10)) == 1

    assert stored(run, 10) == {"workers": 0}
    assert measure_resources(now=later(20)) == 0


def test_the_samples_have_the_position_of_the_run() -> None:
    run = launched(FakeCluster())
    Run.objects.filter(pk=run.pk).update(epoch=1, policy_step=7)

    measure(run, used(0, 50.0, 1, env_steps=40))

    positions = MetricSample.objects.filter(run=run).values_list("step", "amount").distinct()
    assert list(positions) == [(7, 40)]


def test_the_number_of_queries_does_not_depend_on_the_number_of_workers() -> None:
    run = launched(FakeCluster())
    measure(run, used(0, 50.0, 1))
    counts = []
    for round_number, size in enumerate([1, 200], start=1):
        at = 10 * round_number
        given = report(run, *(used(index, 50.0, 1) for index in range(size)), sequence=1 + at)
        accept(run, given, now=later(at))
        with CaptureQueriesContext(connection) as queries:
            measure_resources(now=later(at))
        counts.append(len(queries))
    assert counts[1] <= counts[0]


def test_an_alert_rule_watches_the_memory_of_a_fleet() -> None:
    run = rolling(FakeCluster())
    rule = SetAlertRule(
        name="Memory grows",
        metric="rolldeck/resources/memory_bytes",
        comparator="above",
        threshold=float(6 * GIB),
        for_seconds=10,
    )
    alert_rules.make_rule(body=rule, actor="user:ada", now=NOON)
    for seconds, gib in [(0, 5), (10, 7), (20, 8)]:
        measure(run, used(0, 100.0, gib), seconds=seconds)

    alerts.watch(now=later(20))

    alert = Alert.objects.get(kind="rule", cleared_at=None)
    assert alert.message.startswith("rolldeck/resources/memory_bytes of pole is above")
    measure(run, used(0, 100.0, 4), seconds=30)
    alerts.watch(now=later(31))
    alert.refresh_from_db()
    assert alert.state == "resolved"
