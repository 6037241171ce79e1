"""Storage of metrics from trainers and the platform, and packing of old samples."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

import numpy as np
from django.db import transaction
from django.db.models import Count

from buffer.batches.queries.batches import served_tokens_after
from rolldeck.metric_names import ENVIRONMENTS
from rollouts.control.models import Fleet
from rollouts.metrics.models import MetricChunk, MetricSample, MetricSeries, TokenTally
from rollouts.metrics.queries.metrics import datetime_of
from rollouts.metrics.rules import CHUNK_SAMPLES, OWN_PREFIX, summarised
from rollouts.metrics.schemas import MetricsPush
from runs.lifecycle.models import Run
from web import sql
from web.live.announcements import announce
from web.rules.errors import InvalidField

SERIES_AT_MOST: Final = 20_000
"""Maximum number of metric names of one run."""
SAMPLES_KEPT: Final = 256
"""Number of newest samples per name that are never packed."""
PACKED_AT_AGE: Final = timedelta(seconds=60)
CHUNKS_AT_ONCE: Final = 500

_INSERT: Final = """
    INSERT INTO rollouts_metricsample (run_id, series_id, step, value, at, amount)
    SELECT %(run)s, s.series, s.step, s.value, s.at, s.amount
    FROM unnest(%(series)s::bigint[], %(steps)s::bigint[], %(values)s::float8[],
        %(times)s::timestamptz[], %(amounts)s::bigint[])
        WITH ORDINALITY AS s(series, step, value, at, amount, place)
    ORDER BY s.place"""
# Deleted rows are exactly the packed ones, regardless of concurrent inserts.
_TAKE: Final = """
    WITH taken AS (
        DELETE FROM rollouts_metricsample WHERE id = ANY(ARRAY(
            SELECT id FROM rollouts_metricsample WHERE series_id = %s ORDER BY id LIMIT %s
        )) RETURNING id, step, value, amount, (extract(epoch FROM at) * 1000000)::bigint AS micros
    )
    SELECT string_agg(int8send(step), ''::bytea ORDER BY id),
        string_agg(int8send(micros), ''::bytea ORDER BY id),
        string_agg(int8send(amount), ''::bytea ORDER BY id),
        string_agg(float8send(value), ''::bytea ORDER BY id)
    FROM taken"""


class InvalidMetrics(InvalidField):
    """A sample is invalid; `field` names it."""


class Figure(NamedTuple):
    """One value to store."""

    name: str
    step: int
    value: float
    at: datetime | None = None
    """Time of the value; None for the present."""
    amount: int | None = None
    """Tokens served by then, or env steps of a fleet run; None for the present number."""


@transaction.atomic
def record_metrics(
    *, run_id: int, push: MetricsPush, only_environments: bool = False, now: datetime
) -> int:
    """Store the samples of a trainer or an environment and return their number.

    Args:
        run_id: The run.
        push: The samples.
        only_environments: Whether all names must have the prefix of environments.
        now: Present time.

    Raises:
        InvalidMetrics: If a name has the platform's prefix, or not that of environments, or there
            are too many names; nothing was stored.
    """
    for index, one in enumerate(push.samples):
        field = f"samples[{index}].name"
        if one.name.startswith(OWN_PREFIX):
            raise InvalidMetrics(
                field, f"the prefix {OWN_PREFIX!r} is reserved for built-in metrics"
            )
        if only_environments and not one.name.startswith(ENVIRONMENTS):
            raise InvalidMetrics(
                field,
                f"must begin with {ENVIRONMENTS!r}: the token has the scope 'env', "
                "other names need the scope 'trainer'",
            )
    figures = [Figure(one.name, one.step, float(one.value)) for one in push.samples]
    store_figures(run_id=run_id, figures=figures, now=now)
    return len(figures)


@transaction.atomic
def store_figures(*, run_id: int, figures: Sequence[Figure], now: datetime) -> None:
    """Store values in order, and notify the pages.

    Raises:
        InvalidMetrics: If the run would have too many names.
    """
    names = [figure.name for figure in figures]
    ids = known_series(run_id, names)
    # In a fixed order, so that two pushes with the same new names do not deadlock.
    new = sorted(set(names) - set(ids))
    if new:
        there = MetricSeries.objects.filter(run_id=run_id).count()
        if there + len(new) > SERIES_AT_MOST:
            index = next(i for i, name in enumerate(names) if name not in ids)
            message = f"exceeds the limit of {SERIES_AT_MOST} names per run; it has {there}"
            raise InvalidMetrics(f"samples[{index}].name", message)
        MetricSeries.objects.bulk_create(
            [MetricSeries(run_id=run_id, name=name) for name in new], ignore_conflicts=True
        )
        ids |= known_series(run_id, new)
    present = advance_amount(run_id)
    columns = {
        "run": run_id,
        "series": [ids[figure.name] for figure in figures],
        "steps": [figure.step for figure in figures],
        "values": [float(figure.value) for figure in figures],
        "times": [figure.at or now for figure in figures],
        "amounts": [present if figure.amount is None else figure.amount for figure in figures],
    }
    with sql.cursor() as cursor:
        cursor.execute(_INSERT, columns, prepare=True)
    announce(run_id, "metrics")


def known_series(run_id: int, names: Sequence[str]) -> dict[str, int]:
    """Return the ids of the series of a run by name, of those names that it has."""
    found = MetricSeries.objects.filter(run_id=run_id, name__in=set(names))
    return dict(found.values_list("name", "pk"))


def pack_metrics(*, now: datetime, at_most: int = CHUNKS_AT_ONCE) -> int:
    """Pack old samples of long series, and return the number of chunks created."""
    old = MetricSample.objects.filter(at__lt=now - PACKED_AT_AGE)
    full = old.values("series_id").annotate(rows=Count("id")).order_by()
    due = full.filter(rows__gte=CHUNK_SAMPLES + SAMPLES_KEPT).values_list("series_id", "rows")
    made = 0
    for series_id, rows in due[:at_most]:
        # One transaction per chunk.
        for _ in range((rows - SAMPLES_KEPT) // CHUNK_SAMPLES):
            with transaction.atomic():
                locked = MetricSeries.objects.select_for_update(skip_locked=True, no_key=True)
                series = locked.filter(pk=series_id).first()
                if series is None:  # another packer holds the lock
                    break
                _pack_oldest(series)
                made += 1
    return made


def _pack_oldest(series: MetricSeries) -> None:
    with sql.cursor() as cursor:
        taken = cursor.execute(_TAKE, [series.pk, CHUNK_SAMPLES], binary=True).fetchone()
    assert taken is not None and len(taken[0]) == 8 * CHUNK_SAMPLES  # noqa: S101, PT018 only packers delete, and we hold the series
    MetricChunk.objects.create(series=series, number=series.chunks, **chunk_fields(*taken))
    steps, times, _, values = (raw[-8:] for raw in taken)
    series.chunks += 1
    series.packed_step = int.from_bytes(steps)
    series.packed_value = float(np.frombuffer(values, ">f8")[0])
    series.packed_at = datetime_of(int.from_bytes(times))
    series.save()


def chunk_fields(steps: bytes, times: bytes, amounts: bytes, numbers: bytes) -> dict[str, object]:
    """Return the fields of a chunk with these columns, big-endian, in order of arrival."""
    values = np.frombuffer(numbers, ">f8").astype(np.float64)
    fields: dict[str, object] = {
        "samples": len(values),
        "steps": steps,
        "times": times,
        "amounts": amounts,
        "numbers": numbers,
    }
    for axis, raw in (("step", steps), ("time", times), ("amount", amounts)):
        x = np.frombuffer(raw, ">i8").astype(np.int64)
        fields[f"{axis}_min"], fields[f"{axis}_max"] = int(x.min()), int(x.max())
        fields[f"by_{axis}"] = summarised(x, values).tobytes()
    return fields


def advance_amount(run_id: int) -> int:
    """Return the number of served tokens of a run; for a fleet run, its env steps.

    Tokens are tallied: only batches since the last call are added. The tally stays locked until the
    caller's transaction ends.
    """
    run = Run.objects.only("kind").get(pk=run_id)
    if not run.takes_groups:
        made = Fleet.objects.filter(run_id=run_id).values_list("env_steps_total", flat=True)
        return made.first() or 0
    TokenTally.objects.bulk_create([TokenTally(run_id=run_id)], ignore_conflicts=True)
    tally = TokenTally.objects.select_for_update().get(run_id=run_id)
    later = served_tokens_after(run_id, after_ordinal=tally.ordinal)
    if later.ordinal > tally.ordinal:
        tally.ordinal, tally.tokens = later.ordinal, tally.tokens + later.tokens
        tally.save(update_fields=["ordinal", "tokens"])
    return tally.tokens
