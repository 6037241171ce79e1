"""Context of a chart point: policy version and batches at its time."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

import numpy as np

from buffer.batches.queries.batches import nearby_batches
from buffer.items.models import Batch
from rollouts.metrics.models import MetricSeries
from rollouts.metrics.queries.metrics import NoSuchMetric
from rollouts.metrics.queries.series import SeriesRange, in_stored_units
from rollouts.metrics.schemas import ContextBatch, ContextVersion, MetricContext
from runs.lifecycle.models import PolicyVersion, Run
from web import sql

_CHUNKS_LOOKED_AT: Final = 8
"""Chunks read at each end of a range: a chunk may span the range without a sample in it."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_COLUMNS: Final = {
    "step": ("steps", "m.step"),
    "time": ("times", "(extract(epoch FROM m.at) * 1000000)::bigint"),
    "amount": ("amounts", "m.amount"),
}
_CHUNK: Final = """(SELECT {packed}, times, steps, amounts FROM rollouts_metricchunk
    WHERE series_id = %(series)s AND {x}_max >= %(first)s AND {x}_min <= %(last)s
    ORDER BY number {order} LIMIT %(chunks)s)"""
_TAIL: Final = """SELECT m.at, m.step, m.amount FROM rollouts_metricsample m
    WHERE m.series_id = %(series)s AND {place} BETWEEN %(first)s AND %(last)s
    ORDER BY m.id {order} LIMIT 1"""


def metric_context_at(run: Run, name: str, chart_range: SeriesRange) -> MetricContext:
    """Return the context of a run while some samples of a metric arrived.

    Args:
        run: The run.
        name: Name of the metric.
        chart_range: Range of the chart that contains the samples; its buckets are ignored.

    Raises:
        NoSuchMetric: If the range contains no sample.
    """
    found = _samples(run, name, in_stored_units(chart_range, run.pk))
    if not found:
        raise NoSuchMetric(f"the run has no sample of {name!r} in this range")
    last = max(found)
    began_at, ended_at = min(found).at, last.at
    around = nearby_batches(run.pk, began_at=began_at, ended_at=ended_at)
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
            id=version.pk,
            epoch=version.epoch,
            step=version.step,
            published_at=version.published_at,
        ),
        handed_out=around.handed_out,
        batches=[_shown(batch, began_at) for batch in around.batches],
    )


class _At(NamedTuple):
    """Time and position of a sample's arrival."""

    at: datetime
    step: int
    amount: int


def _samples(run: Run, name: str, chart_range: SeriesRange) -> list[_At]:
    """Return the first and the last samples of the range by arrival, or none."""
    series = MetricSeries.objects.filter(run=run, name=name).values_list("pk", flat=True).first()
    packed, place = _COLUMNS[chart_range.axis]
    texts = {"packed": packed, "x": chart_range.axis, "place": place}
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
    return [*_packed(chunks, chart_range), *(_At(*tail) for tail in tails if tail)]


def _packed(chunks: list[Any], chart_range: SeriesRange) -> Iterator[_At]:
    for chunk in chunks:
        places, *columns = (np.frombuffer(raw, ">i8") for raw in chunk)
        inside = (places >= chart_range.first) & (places <= chart_range.last)
        times, steps, amounts = (column[inside] for column in columns)
        for index in {0, len(times) - 1} if len(times) else ():
            at = _EPOCH + timedelta(microseconds=int(times[index]))
            yield _At(at, int(steps[index]), int(amounts[index]))


def _shown(batch: Batch, began_at: datetime) -> ContextBatch:
    trainer = batch.trainer
    return ContextBatch(
        id=str(batch.pk),
        ordinal=batch.ordinal,
        kind=batch.kind,  # type: ignore[arg-type]
        state=batch.state,  # type: ignore[arg-type]
        trainer=None if trainer is None else trainer.name or trainer.identity,
        items=batch.items,
        epoch=batch.epoch,
        policy_step=batch.policy_step,
        leased_at=batch.leased_at,
        lease_expires_at=batch.lease_expires_at,
        settled_at=batch.settled_at,
        with_trainer=batch.settled_at is None or batch.settled_at >= began_at,
    )
