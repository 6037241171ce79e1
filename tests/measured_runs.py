"""Store runs with very many samples in packed form, without sending them.

The functions need Django: call them in a test, or in the shell of a running server.
"""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import numpy as np
from django.db import connection

from rollouts.metrics.models import MetricChunk, MetricSeries
from rollouts.metrics.rules import CHUNK_SAMPLES
from rollouts.metrics.services.metrics import Figure, chunk_fields, store_figures
from runs.events.models import RunEvent
from runs.lifecycle.models import Run
from tests.factories import make_run

SAMPLES: Final = 1_000_000
SPIKE: Final = 1e6
"""The maximum sample, which occurs once."""
MONTH_SECONDS, PERIOD_SECONDS, NAMES = 30 * 86_400, 10, 5_000
MONTH_EVENTS: Final = 20_000
OF_THE_MONTH: Final = MONTH_SECONDS // PERIOD_SECONDS // CHUNK_SAMPLES * CHUNK_SAMPLES
"""Number of samples of each curve."""
# Metrics of the eight charts of an outside run.
CURVES: Final = [
    f"rolldeck/{name}"
    for name in (
        *("reward/mean", "reward/p10", "reward/p50", "reward/p90"),
        *("queue/depth", "queue/threshold", "staleness/p50", "staleness/p95"),
        *("accepted_per_second", "served_per_second", "trainer/waiting_share"),
        *("zero_variance_share", "truncated_share", "length/mean", "length/max"),
        "tokens_per_second",
    )
]
_COLUMNS: Final = [f.column for f in MetricChunk._meta.concrete_fields if f.column != "id"]
_MICROSECOND: Final = timedelta(microseconds=1)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def million_samples(names: list[str], *, began: datetime) -> list[Run]:
    """Store runs with the same million samples of a `loss`; the first has unpacked samples too.

    Each run begins a minute after the one before, so that their times since the start differ.
    """
    steps = np.arange(SAMPLES)
    jitter, values = _randoms(SAMPLES)
    values[SAMPLES // 3] = SPIKE
    places = _micros(began) + steps * 1_000_000 + jitter
    columns = [
        *(column.astype(">i8") for column in (steps, places, steps * 4000)),
        values.astype(">f8"),
    ]
    whole = SAMPLES // CHUNK_SAMPLES
    runs = [
        make_run(name=name, kind="outside", now=began, trainer_started_at=began + number * _LATER)
        for number, name in enumerate(names)
    ]
    made = MetricSeries.objects.bulk_create(
        MetricSeries(run=run, name="loss", chunks=whole) for run in runs
    )
    _pack(made[0], columns)
    for series in made[1:]:
        _copy_chunks(made[0], series)
    rest = zip(steps[whole * CHUNK_SAMPLES :], values[whole * CHUNK_SAMPLES :], strict=True)
    figures = [Figure("loss", int(step), float(value)) for step, value in rest]
    store_figures(run_id=runs[0].pk, figures=figures, now=began + timedelta(seconds=SAMPLES))
    _settle()
    return runs


def measured_month(name: str, *, began: datetime) -> Run:
    """Store a run measured for thirty days, with 5,000 metric names and many events."""
    run = make_run(name=name, kind="outside", now=began, trainer_started_at=began)
    places = np.arange(MONTH_SECONDS // PERIOD_SECONDS)
    times = _micros(began) + places * PERIOD_SECONDS * 1_000_000
    columns: list[Any] = [column.astype(">i8") for column in (places // 7, times, places * 4000)]
    columns.append(_randoms(len(places))[1].astype(">f8"))
    others = [f"layer/{number}/norm" for number in range(NAMES - len(CURVES))]
    made = MetricSeries.objects.bulk_create(
        MetricSeries(
            run=run, name=name, chunks=OF_THE_MONTH // CHUNK_SAMPLES if name in CURVES else 0
        )
        for name in [*CURVES, *others]
    )
    _pack(made[0], columns)
    for series in made[1 : len(CURVES)]:
        _copy_chunks(made[0], series)
    ended = began + timedelta(seconds=MONTH_SECONDS)
    store_figures(
        run_id=run.pk, figures=[Figure(other, 40_000, 1.0) for other in others], now=ended
    )
    RunEvent.objects.bulk_create(
        RunEvent(run=run, kind="note", message=f"event {n}", actor="tests", at=began + n * _PAUSE)
        for n in range(MONTH_EVENTS)
    )
    _settle()
    return run


_LATER: Final = timedelta(minutes=1)
_PAUSE: Final = timedelta(seconds=MONTH_SECONDS / MONTH_EVENTS)


def _micros(at: datetime) -> int:
    return (at - _EPOCH) // _MICROSECOND


def _randoms(many: int) -> tuple[Any, Any]:
    random = np.random.default_rng(0)
    return random.integers(0, 5000, many), random.normal(size=many)


def _pack(series: MetricSeries, columns: list[Any]) -> None:
    """Store the samples of big-endian columns as the chunks of a series."""
    for number in range(series.chunks):
        part = slice(number * CHUNK_SAMPLES, (number + 1) * CHUNK_SAMPLES)
        fields = chunk_fields(*(column[part].tobytes() for column in columns))
        MetricChunk.objects.create(series=series, number=number, **fields)


def _copy_chunks(series: MetricSeries, other: MetricSeries) -> None:
    same = ", ".join(f'"{name}"' for name in _COLUMNS if name != "series_id")
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO rollouts_metricchunk (series_id, {same}) "  # noqa: S608 our own columns
            f"SELECT %s, {same} FROM rollouts_metricchunk WHERE series_id = %s",
            [other.pk, series.pk],
        )


def _settle() -> None:
    """Vacuum and analyze, like autovacuum in a server that got its samples one by one."""
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE rollouts_metricchunk, rollouts_metricsample")
        cursor.execute("VACUUM ANALYZE rollouts_metricseries, runs_runevent")
