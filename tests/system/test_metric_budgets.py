"""Charts open fast: twenty runs of a million samples, and the overview of a month with 5,000 names.

A machine of its own scans a million rows in 0.1 s or more; a busy one may take longer for both.
"""

import time
from datetime import timedelta
from typing import Any

import msgspec
import numpy as np
import pytest
from django.db import connection
from rest_framework.test import APIClient

from buffer import storage
from rollouts.core.series import CHUNK_SAMPLES
from rollouts.models import MetricChunk, MetricSeries
from rollouts.selectors import Asked, lines, metric_part
from rollouts.services.metrics import Figure, chunk_fields, store_figures
from rollouts.wire import MetricLines
from runs.models import Run
from tests.factories import NOON, bearer, make_run

pytestmark = [pytest.mark.system, pytest.mark.django_db(transaction=True)]
RUNS, SAMPLES = 20, 1_000_000
SPIKE = 1e6
# Names of the eight charts: two or three each, four of the rewards.
CURVES_OF_THE_OVERVIEW = 17
MONTH_SECONDS, PERIOD_SECONDS, NAMES = 30 * 86_400, 10, 5_000
COLUMNS = [field.column for field in MetricChunk._meta.concrete_fields if field.column != "id"]


def pack(series: MetricSeries, columns: list[Any]) -> None:
    """Store the samples in these big-endian columns as the chunks of a series."""
    chunks = [
        MetricChunk(
            series=series,
            number=n,
            **chunk_fields(
                *(c[n * CHUNK_SAMPLES : (n + 1) * CHUNK_SAMPLES].tobytes() for c in columns)
            ),
        )
        for n in range(series.chunks)
    ]
    MetricChunk.objects.bulk_create(chunks, batch_size=200)


def first_run() -> tuple[int, MetricSeries]:
    """Store a run with a million packed samples, one of which is a spike."""
    random = np.random.default_rng(0)
    steps = np.arange(SAMPLES)
    times = int(NOON.timestamp() * 1e6) + steps * 1_000_000 + random.integers(0, 5000, SAMPLES)
    values = random.normal(size=SAMPLES)
    values[SAMPLES // 3] = SPIKE
    kinds = (">i8", ">i8", ">i8", ">f8")
    columns = [
        column.astype(kind)
        for column, kind in zip((steps, times, steps * 4000, values), kinds, strict=True)
    ]
    run = make_run(name="run-0")
    whole = SAMPLES // CHUNK_SAMPLES
    series = MetricSeries.objects.create(run=run, name="loss", chunks=whole)
    pack(series, columns)
    rest = zip(steps[whole * CHUNK_SAMPLES :], values[whole * CHUNK_SAMPLES :], strict=True)
    figures = [Figure("loss", int(step), float(value)) for step, value in rest]
    store_figures(run_id=run.pk, figures=figures, now=NOON + timedelta(seconds=SAMPLES))
    return run.pk, series


def measured_month() -> tuple[str, list[str]]:
    """Store a run that was measured for thirty days; return its name and those of its curves."""
    random = np.random.default_rng(1)
    run = make_run(name="month")
    places = np.arange(MONTH_SECONDS // PERIOD_SECONDS)
    times = int(NOON.timestamp() * 1e6) + places * PERIOD_SECONDS * 1_000_000
    columns: list[Any] = [column.astype(">i8") for column in (places // 7, times, places * 4000)]
    columns.append(random.normal(size=len(places)).astype(">f8"))
    whole = len(places) // CHUNK_SAMPLES
    names = [f"rolldeck/{number}" for number in range(CURVES_OF_THE_OVERVIEW)]
    others = [f"layer/{number}/norm" for number in range(NAMES - len(names))]
    made = MetricSeries.objects.bulk_create(
        MetricSeries(run=run, name=name, chunks=whole if name in names else 0)
        for name in [*names, *others]
    )
    first, *rest = made[: len(names)]
    pack(first, columns)
    for series in rest:
        copy_chunks(first, series)
    store_figures(
        run_id=run.pk,
        figures=[Figure(name, 40_000, 1.0) for name in others],
        now=NOON + timedelta(seconds=MONTH_SECONDS),
    )
    return run.name, names


def copy_of(series: MetricSeries, number: int) -> tuple[str, int]:
    """Store another run with the same samples."""
    run = make_run(name=f"run-{number}")
    other = MetricSeries.objects.create(run=run, name="loss", chunks=series.chunks)
    copy_chunks(series, other)
    return run.name, run.pk


def copy_chunks(series: MetricSeries, other: MetricSeries) -> None:
    same = ", ".join(f'"{name}"' for name in COLUMNS if name != "series_id")
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO rollouts_metricchunk (series_id, {same}) "  # noqa: S608 our own columns
            f"SELECT %s, {same} FROM rollouts_metricchunk WHERE series_id = %s",
            [other.pk, series.pk],
        )


def quickest(act: Any, *, times: int = 5) -> float:
    """Return the seconds of the quickest of a few calls: the others shared the machine."""
    found = []
    for _ in range(times):
        began = time.perf_counter()
        act()
        found.append(time.perf_counter() - began)
    return min(found)


def test_lines_of_twenty_million_samples_cost_less_than_a_scan_of_one_in_twenty() -> None:
    run_id, series = first_run()
    runs = [("run-0", run_id), *(copy_of(series, n) for n in range(1, RUNS))]
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE rollouts_metricchunk")
        cursor.execute(
            "CREATE TEMP TABLE plain AS "
            "SELECT i::bigint AS step, random() AS value FROM generate_series(1, %s) i",
            [SAMPLES],
        )

    def draw() -> bytes:
        found = lines(runs, ["loss"], Asked(axis="step", at_most=2000))
        return msgspec.json.encode(MetricLines(x="step", lines=found))

    def scan() -> None:
        with storage.cursor() as cursor:
            cursor.execute("SELECT step / 512, min(value), max(value) FROM plain GROUP BY 1")

    drawn = msgspec.json.decode(draw(), type=MetricLines).lines
    assert len(drawn) == RUNS
    for line in drawn:
        assert len(line.x) <= 2000
        assert max(value for value in line.max if value is not None) == SPIKE
    whole = SAMPLES // CHUNK_SAMPLES * CHUNK_SAMPLES
    assert [line.samples for line in drawn] == [SAMPLES] + [whole] * (RUNS - 1)

    def ask() -> bytes:
        names = ",".join(name for name, _ in runs)
        answer = APIClient().get(
            "/api/metrics/lines",
            {"runs": names, "names": "loss", "x": "elapsed", "points": 2000},
            headers=bearer("trainer"),
        )
        assert answer.status_code == 200, answer.content
        return bytes(answer.content)

    asked = msgspec.json.decode(ask(), type=MetricLines).lines
    assert [len(line.x) > 0 for line in asked] == [True] * RUNS

    # 1 s for all twenty on a machine of its own, which scans a million rows in 0.1 s or more.
    drawing, asking, scanning = quickest(draw), quickest(ask), quickest(scan)
    assert drawing < max(1.0, 10 * scanning)
    # What a page of twenty runs asks for is no dearer: the answer is the lines, and little else.
    assert asking < max(1.0, 10 * scanning)


def test_the_overview_of_a_month_with_five_thousand_names_is_there_at_once() -> None:
    name, curves = measured_month()
    run_id = Run.objects.get(name=name).pk
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE rollouts_metricchunk, rollouts_metricsample")
        cursor.execute(
            "CREATE TEMP TABLE plain AS "
            "SELECT i::bigint AS step, random() AS value FROM generate_series(1, %s) i",
            [SAMPLES],
        )

    def draw() -> list[int]:
        """Ask as the page does: chart by chart, and once what is new of the metrics."""
        assert metric_part(run_id)["keys"] == NAMES
        charts = [curves[begin : begin + 2] for begin in range(0, len(curves), 2)]
        found = [
            line
            for names in charts
            for line in lines([(name, run_id)], names, Asked(axis="time", at_most=240))
        ]
        msgspec.json.encode(MetricLines(x="time", lines=found))
        return [line.samples for line in found]

    def scan() -> None:
        with storage.cursor() as cursor:
            cursor.execute("SELECT step / 512, min(value), max(value) FROM plain GROUP BY 1")

    samples = MONTH_SECONDS // PERIOD_SECONDS // CHUNK_SAMPLES * CHUNK_SAMPLES
    assert draw() == [samples] * len(curves)
    drawing, scanning = quickest(draw), quickest(scan)
    assert drawing < max(0.6, 6 * scanning)
