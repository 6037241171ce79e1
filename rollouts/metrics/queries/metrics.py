"""Queries for metric samples in order of arrival, and for metric names."""

from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

import numpy as np
from django.db.models import F, FloatField, Max, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce

from rollouts.metrics.models import MetricSample, MetricSeries
from rollouts.metrics.rules import CHUNK_SAMPLES, written
from rollouts.metrics.schemas import (
    MetricChanges,
    MetricKey,
    MetricKeys,
    MetricNames,
    MetricRow,
    Metrics,
    MetricSamples,
)
from runs.lifecycle.models import Run
from runs.search.queries.columns import NAMES_AT_MOST
from web import sql
from web.rules.errors import NotFound
from web.rules.pages import PageRequest

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
KEYS_AT_MOST: Final = 500
SAMPLES_AT_ONCE: Final = 10 * CHUNK_SAMPLES

# The unpacked tail has the number that its first chunk will get.
_SAMPLES: Final = """
    SELECT number, steps, numbers, times, amounts FROM (
        SELECT number, steps, numbers, times, amounts FROM rollouts_metricchunk
        WHERE series_id = %(series)s AND number BETWEEN %(first)s AND %(last)s
        UNION ALL
        SELECT s.chunks, t.* FROM rollouts_metricseries s, LATERAL (
            SELECT string_agg(int8send(step), ''::bytea ORDER BY id),
                string_agg(float8send(value), ''::bytea ORDER BY id),
                string_agg(int8send((extract(epoch FROM at) * 1000000)::bigint), ''::bytea
                    ORDER BY id),
                string_agg(int8send(amount), ''::bytea ORDER BY id)
            FROM rollouts_metricsample WHERE series_id = s.id AND s.chunks <= %(last)s
        ) t WHERE s.id = %(series)s
    ) found (number, steps, numbers, times, amounts) ORDER BY number"""
_LAST: Final = """
    SELECT s.id, COALESCE(m.step, s.packed_step), COALESCE(m.value, s.packed_value),
        COALESCE(m.at, s.packed_at)
    FROM rollouts_metricseries s
    LEFT JOIN LATERAL (
        SELECT step, value, at FROM rollouts_metricsample
        WHERE series_id = s.id ORDER BY id DESC LIMIT 1
    ) m ON true
    WHERE s.id = ANY(%s)"""


class Sample(NamedTuple):
    """The newest sample of a name."""

    step: int
    value: float
    at: datetime


def metrics(
    run_id: int, page: PageRequest[int], *, names: Iterable[str] = (), after_id: int | None = None
) -> Metrics:
    """Return the samples of the named metrics (all without names), newest first.

    If `after_id` is given, only later rows. Old samples are packed and appear only in
    :func:`samples_of` and in charts.
    """
    found = MetricSample.objects.filter(run_id=run_id)
    selected = list(names)
    if selected:
        ids = MetricSeries.objects.filter(run_id=run_id, name__in=selected).values_list("pk")
        found = found.filter(series_id__in=[pk for (pk,) in ids])
    rows = found.annotate(name=F("series__name")).values_list("id", "at", "name", "step", "value")
    if after_id is not None:
        rows = rows.filter(id__gt=after_id)
    if page.after is not None:
        rows = rows.filter(id__lt=page.after)
    shown, cursor = page.cut(rows.order_by("-id")[: page.limit + 1], lambda row: int(row[0]))
    return Metrics(
        results=[
            MetricRow(id=pk, at=at, name=name, step=step, value=written(value))
            for pk, at, name, step, value in shown
        ],
        next=cursor,
    )


def last_value(name: str) -> Subquery:
    """Return the expression for the last value of a metric in lists of runs."""
    newest = MetricSample.objects.filter(series=OuterRef("pk")).order_by("-id").values("value")
    series = MetricSeries.objects.filter(run=OuterRef("pk"), name=name)
    return Subquery(
        series.annotate(last=Coalesce(Subquery(newest[:1]), "packed_value")).values("last"),
        output_field=FloatField(),
    )


def names_of_runs(runs: QuerySet[Run]) -> list[str]:
    """Return the names of all metrics of runs, in order, without those that contain a comma."""
    found = MetricSeries.objects.filter(run__in=runs.order_by().values("pk"))
    names = found.exclude(name__contains=",").values_list("name", flat=True)
    return list(names.distinct().order_by("name")[:NAMES_AT_MOST])


def metric_part(run_id: int) -> MetricChanges:
    """Return the number of names of a run and the newest sample id, to detect changes."""
    newest = MetricSample.objects.filter(run_id=run_id).aggregate(Max("id"))["id__max"]
    keys = MetricSeries.objects.filter(run_id=run_id).count()
    return MetricChanges(keys=keys, newest=newest or 0)


def metric_keys(
    run_id: int,
    page: PageRequest[str],
    *,
    names: Collection[str] = (),
    search: str = "",
    prefix: str = "",
) -> MetricKeys:
    """Return a page of a run's names, in order.

    Args:
        run_id: Id of the run.
        page: The requested page; a position is a name.
        names: Exact names; all if empty.
        search: Words that must all occur in the name, case-insensitive.
        prefix: Prefix of the name.
    """
    found = MetricSeries.objects.filter(run_id=run_id, name__startswith=prefix)
    if names:
        found = found.filter(name__in=names)
    for word in search.split():
        found = found.filter(name__icontains=word)
    total = found.count()
    if page.after is not None:
        found = found.filter(name__gt=page.after)
    series, cursor = page.cut(found.order_by("name")[: page.limit + 1], lambda one: one.name)
    newest = newest_samples([one.pk for one in series])
    rows = [
        MetricKey(name=one.name, step=last.step, value=written(last.value), at=last.at)
        for one in series
        if (last := newest.get(one.pk)) is not None
    ]
    return MetricKeys(results=rows, total=total, next=cursor)


def metric_names(run_id: int) -> MetricNames:
    """Return all names of a run in order, without further data."""
    names = MetricSeries.objects.filter(run_id=run_id).order_by("name")
    return MetricNames(results=list(names.values_list("name", flat=True)), next=None)


def newest_samples(series_ids: Sequence[int]) -> dict[int, Sample]:
    """Return the newest sample of each series that has one, by series."""
    with sql.cursor() as cursor:
        rows = cursor.execute(_LAST, [list(series_ids)]).fetchall()
    return {pk: Sample(*sample) for pk, *sample in rows if sample[0] is not None}


def samples_of(run_id: int, name: str, *, after: int, limit: int) -> MetricSamples:
    """Return samples of one name in order of arrival, without the first `after`.

    Raises:
        NotFound: If the run has no samples of that name.
    """
    series = MetricSeries.objects.filter(run_id=run_id, name=name).values_list("pk", flat=True)
    series_id = series.first()
    if series_id is None:
        raise NotFound(f"the run has no samples of {name!r}")
    parameters = {"series": series_id, "first": after // CHUNK_SAMPLES}
    parameters["last"] = (after + limit) // CHUNK_SAMPLES
    with sql.cursor() as cursor:
        # A single statement, so that samples packed concurrently are neither missed nor duplicated.
        rows = cursor.execute(_SAMPLES, parameters, binary=True).fetchall()
    _, *columns = zip(*rows, strict=True)
    begin = rows[0][0] * CHUNK_SAMPLES
    # Big-endian integers; the values are floats.
    steps, values, times, amounts = (
        np.concatenate([np.frombuffer(raw or b"", kind) for raw in column])[max(0, after - begin) :]
        for kind, column in zip((">i8", ">f8", ">i8", ">i8"), columns, strict=True)
    )
    page = slice(0, limit)
    return MetricSamples(
        name=name,
        step=steps[page].tolist(),
        value=[written(value) for value in values[page].tolist()],
        at=(times[page] / 1e6).tolist(),
        amount=amounts[page].tolist(),
        next=after + limit if len(steps) > limit else None,
    )


def datetime_of(micros: int) -> datetime:
    """Return µs since 1970 as a time."""
    return EPOCH + timedelta(microseconds=micros)
