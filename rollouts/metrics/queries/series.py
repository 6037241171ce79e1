"""Chart lines over millions of samples, from blocks where possible, and the context of a point."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

import numpy as np
from django.db.models.functions import Coalesce

from buffer.batches.queries.batches import nearby_batches
from rollouts.metrics.models import MetricSeries
from rollouts.metrics.queries.metrics import EPOCH
from rollouts.metrics.rules import (
    BLOCK,
    BLOCK_SAMPLES,
    OF_ARRIVALS,
    X_AT_MOST,
    Blocks,
    blocks_of,
    condensed,
)
from rollouts.metrics.schemas import ContextBatch, ContextVersion, MetricContext, MetricLine
from runs.lifecycle.models import PolicyVersion, Run
from web import sql
from web.rules.errors import NotFound

AXES: Final = ("step", "time", "elapsed", "amount")
"""`elapsed` is the time since the run began: since its first trainer registered, or its creation.
"""
TIMES: Final = ("time", "elapsed")
"""Axes stored in µs and returned in seconds."""
SAMPLES_READ: Final = 600_000
"""Approximate number of samples, besides blocks, read for the lines of one chart."""
_MICROS: Final = "(extract(epoch FROM m.at) * 1000000)::bigint"
_TAIL_PLACE: Final = {"step": "m.step", "time": _MICROS, "amount": "m.amount"}
_PACKED: Final = {"step": "steps", "time": "times", "amount": "amounts"}

_COUNT: Final = """
    SELECT s.id, SUM(c.samples)::bigint
    FROM unnest(%(series)s::bigint[], %(first)s::bigint[], %(last)s::bigint[]) AS s(id, first, last)
    JOIN rollouts_metricchunk c
        ON c.series_id = s.id AND c.{x}_max >= s.first AND c.{x}_min <= s.last
    GROUP BY s.id"""
# A single statement, so that samples packed concurrently are neither missed nor duplicated. Chunks
# inside the range contribute their blocks, those at its edges their samples.
_READ: Final = """
    SELECT s.id, c.blocks, c.places, c.numbers, t.places, t.numbers
    FROM unnest(%(series)s::bigint[], %(first)s::bigint[], %(last)s::bigint[], %(whole)s::bool[])
        AS s(id, first, last, whole)
    CROSS JOIN LATERAL (
        SELECT string_agg(by_{x}, ''::bytea ORDER BY number) FILTER (WHERE inside) AS blocks,
            string_agg({packed}, ''::bytea ORDER BY number) FILTER (WHERE NOT inside) AS places,
            string_agg(numbers, ''::bytea ORDER BY number) FILTER (WHERE NOT inside) AS numbers
        FROM (
            SELECT *, s.whole AND {x}_min >= s.first AND {x}_max <= s.last AS inside
            FROM rollouts_metricchunk
            WHERE series_id = s.id AND {x}_max >= s.first AND {x}_min <= s.last
        ) found
    ) c
    CROSS JOIN LATERAL (
        SELECT string_agg(int8send({place}), ''::bytea ORDER BY m.id) AS places,
            string_agg(float8send(m.value), ''::bytea ORDER BY m.id) AS numbers
        FROM rollouts_metricsample m WHERE m.series_id = s.id
    ) t"""
_MORE: Final = ("x_first", "min", "max", "mean", "count", "gaps")
_CHUNKS_LOOKED_AT: Final = 8
"""Chunks read at each end of a range: a chunk may span the range without a sample in it."""
_CHUNK: Final = """(SELECT {packed}, times, steps, amounts FROM rollouts_metricchunk
    WHERE series_id = %(series)s AND {x}_max >= %(first)s AND {x}_min <= %(last)s
    ORDER BY number {order} LIMIT %(chunks)s)"""
_TAIL: Final = """SELECT m.at, m.step, m.amount FROM rollouts_metricsample m
    WHERE m.series_id = %(series)s AND {place} BETWEEN %(first)s AND %(last)s
    ORDER BY m.id {order} LIMIT 1"""


class SeriesRange(NamedTuple):
    """Range and resolution of a chart."""

    axis: str
    """One of :data:`AXES`."""
    first: int = 0
    """Least position, in steps, µs since 1970 or since the run began, or tokens (env steps)."""
    last: int = X_AT_MOST
    at_most: int = 1000
    """Number of buckets per line."""


def lines(
    run_ids: Sequence[tuple[str, int]], names: Sequence[str], chart_range: SeriesRange
) -> list[MetricLine]:
    """Return a line for each run (name and id) and metric; an empty one without such samples.

    Every sample in the range, and none outside, is in exactly one bucket.
    """
    ids_of_runs = [run_id for _, run_id in run_ids]
    found = MetricSeries.objects.filter(run_id__in=ids_of_runs, name__in=list(names))
    ids = {(run_id, name): pk for pk, run_id, name in found.values_list("pk", "run_id", "name")}
    begins = _begins(ids_of_runs) if chart_range.axis == "elapsed" else {}
    blocks = _blocks_of({pk: begins.get(run_id, 0) for (run_id, _), pk in ids.items()}, chart_range)
    nothing = np.empty(0, BLOCK)
    return [
        line_of(run, name, blocks.get(ids.get((run_id, name), -1), nothing), chart_range)
        for run, run_id in run_ids
        for name in names
    ]


def blocks_of_series(series_ids: Sequence[int], chart_range: SeriesRange) -> dict[int, Blocks]:
    """Return blocks by series in a range of a stored axis (not `elapsed`), in order of arrival.

    Series without samples in the range have no blocks.
    """
    return _blocks_of(dict.fromkeys(series_ids, 0), chart_range)


def in_stored_units(chart_range: SeriesRange, run_id: int) -> SeriesRange:
    """Return the same range in stored units: `elapsed` is converted to times."""
    if chart_range.axis != "elapsed":
        return chart_range
    return _shifted(chart_range, _begins([run_id])[run_id])._replace(axis="time")


def _begins(run_ids: Sequence[int]) -> dict[int, int]:
    """Return the beginning of each run, in µs since 1970."""
    began = Coalesce("trainer_started_at", "created_at")
    rows = Run.objects.filter(pk__in=run_ids).annotate(began=began).values_list("pk", "began")
    return {pk: (at - EPOCH) // timedelta(microseconds=1) for pk, at in rows}


def _blocks_of(origins: dict[int, int], chart_range: SeriesRange) -> dict[int, Blocks]:
    """Return the blocks in the range by series, in order of arrival, relative to its origin."""
    if not origins:
        return {}
    # Stored positions are times; those relative to the run's beginning are computed.
    kept = "time" if chart_range.axis == "elapsed" else chart_range.axis
    texts = {"x": kept, "packed": _PACKED[kept], "place": _TAIL_PLACE[kept]}
    ranges = [_shifted(chart_range, origin) for origin in origins.values()]
    bounds: dict[str, Any] = {
        "series": list(origins),
        "first": [one.first for one in ranges],
        "last": [one.last for one in ranges],
    }
    with sql.cursor() as cursor:
        counts = dict(cursor.execute(_COUNT.format(**texts), bounds).fetchall())
        # With fewer samples, blocks would be wider than buckets.
        fine = min(chart_range.at_most * BLOCK_SAMPLES // 2, SAMPLES_READ // len(origins))
        bounds["whole"] = [counts.get(pk, 0) > fine for pk in origins]
        rows = cursor.execute(_READ.format(**texts), bounds, binary=True).fetchall()
    blocks = {}
    for pk, *columns in rows:
        origin = origins[pk]
        shifted = _shifted(chart_range, origin)
        whole, *edges = (raw or b"" for raw in columns)
        parts = [np.frombuffer(whole, BLOCK)]
        for places, numbers in (edges[:2], edges[2:]):
            x = np.frombuffer(places, ">i8").astype(np.int64)
            inside = (x >= shifted.first) & (x <= shifted.last)
            values = np.frombuffer(numbers, ">f8").astype(np.float64)
            parts.append(blocks_of(x[inside], values[inside]))
        blocks[pk] = np.concatenate(parts)
        blocks[pk]["x_first"] -= origin
        blocks[pk]["x_last"] -= origin
    return blocks


def _shifted(chart_range: SeriesRange, origin: int) -> SeriesRange:
    first, last = (
        max(chart_range.first + origin, -X_AT_MOST),
        min(chart_range.last + origin, X_AT_MOST),
    )
    return chart_range._replace(first=first, last=last)


def line_of(run: str, name: str, found: Blocks, chart_range: SeriesRange) -> MetricLine:
    """Return blocks of a series as a line of a chart."""
    blocks, width = condensed(found, at_most=chart_range.at_most)
    unit = 1e6 if chart_range.axis in TIMES else 1.0
    gaps = blocks["nans"] + blocks["infinities"]
    counts = blocks["count"] + gaps
    is_exact = bool(np.all(counts == 1))
    # If a run went back to an earlier step, buckets overlap; drawn positions must increase.
    ends = np.minimum(blocks["x_last"], (blocks["x_first"] // width + 1) * width - 1)
    more: dict[str, list[Any]] = {name: [] for name in _MORE}
    if not is_exact:
        with np.errstate(invalid="ignore", divide="ignore"):
            means = np.clip(blocks["sum"] / blocks["count"], blocks["min"], blocks["max"])
        values = (blocks["x_first"] / unit, blocks["min"], blocks["max"], means, counts, gaps)
        more = {name: column.tolist() for name, column in zip(_MORE, values, strict=True)}
    if not gaps.any():
        more["gaps"] = []
    return MetricLine(
        run=run,
        name=name,
        samples=int(counts.sum()),
        nans=int(blocks["nans"].sum()),
        infinities=int(blocks["infinities"].sum()),
        bucket=width / unit,
        is_exact=is_exact,
        x=(ends / unit).tolist(),
        last=blocks["last"].tolist(),
        **more,
    )


def metric_context_at(run: Run, name: str, chart_range: SeriesRange) -> MetricContext:
    """Return the context of a run while the samples of a metric in a range arrived.

    Raises:
        NotFound: If the range contains no sample.
    """
    found = _samples(run, name, in_stored_units(chart_range, run.pk))
    if not found:
        raise NotFound(f"the run has no sample of {name!r} in this range")
    last = max(found)
    began_at, ended_at = min(found).at, last.at
    around = nearby_batches(
        run.pk, began_at=began_at, ended_at=ended_at, of_arrivals=name.startswith(OF_ARRIVALS)
    )
    published = PolicyVersion.objects.filter(run=run, published_at__lte=ended_at)
    version = published.order_by("-id").only("epoch", "step", "published_at").first()
    return MetricContext(
        began_at=began_at,
        ended_at=ended_at,
        step=last.step,
        amount=last.amount,
        version=None
        if version is None
        else ContextVersion(
            id=version.pk, epoch=version.epoch, step=version.step, published_at=version.published_at
        ),
        handed_out=around.handed_out,
        batches=[
            ContextBatch(
                id=str(batch.pk),
                ordinal=batch.ordinal,
                kind=batch.kind,  # type: ignore[arg-type]
                state=batch.state,  # type: ignore[arg-type]
                trainer=(batch.trainer.name or batch.trainer.identity) if batch.trainer else None,
                items=batch.items,
                epoch=batch.epoch,
                policy_step=batch.policy_step,
                leased_at=batch.leased_at,
                lease_expires_at=batch.lease_expires_at,
                settled_at=batch.settled_at,
                with_trainer=batch.settled_at is None or batch.settled_at >= began_at,
            )
            for batch in around.batches
        ],
    )


class _At(NamedTuple):
    """Time and position of a sample's arrival."""

    at: datetime
    step: int
    amount: int


def _samples(run: Run, name: str, chart_range: SeriesRange) -> list[_At]:
    """Return the first and the last samples of the range by arrival, or none."""
    series = MetricSeries.objects.filter(run=run, name=name).values_list("pk", flat=True).first()
    axis = chart_range.axis
    texts = {"packed": _PACKED[axis], "x": axis, "place": _TAIL_PLACE[axis]}
    bounds: dict[str, Any] = {
        "series": series,
        "first": chart_range.first,
        "last": chart_range.last,
        "chunks": _CHUNKS_LOOKED_AT,
    }
    ends = [{**texts, "order": order} for order in ("ASC", "DESC")]
    with sql.cursor() as cursor:
        packed_ends = " UNION ALL ".join(_CHUNK.format(**end) for end in ends)
        chunks = cursor.execute(packed_ends, bounds, binary=True).fetchall()
        tails = [cursor.execute(_TAIL.format(**end), bounds).fetchone() for end in ends]
    found = [_At(*tail) for tail in tails if tail]
    for chunk in chunks:
        places, *columns = (np.frombuffer(raw, ">i8") for raw in chunk)
        inside = (places >= chart_range.first) & (places <= chart_range.last)
        times, steps, amounts = (column[inside] for column in columns)
        for index in {0, len(times) - 1} if len(times) else ():
            at = EPOCH + timedelta(microseconds=int(times[index]))
            found.append(_At(at, int(steps[index]), int(amounts[index])))
    return found
