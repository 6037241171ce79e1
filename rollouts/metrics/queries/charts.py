"""Queries for the annotations of charts."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

import numpy as np

from rollouts.metrics.models import Annotation, MetricSeries
from rollouts.metrics.queries.metrics import EPOCH
from rollouts.metrics.schemas import (
    AnnotationRow,
    Annotations,
    ChartEvent,
)
from runs.access.queries import shown_name, token_names
from runs.events.models import RunEvent
from runs.lifecycle.models import PolicyVersion
from web import sql

ANNOTATIONS_AT_MOST: Final = 200
EVENTS_AT_MOST: Final = 100
SHOWN_EVENTS: Final = (
    "status",
    "settings_changed",
    "epoch_opened",
    "archived",
    "environment_changed",
)
FLEET_EVENTS: Final = (
    "fleet_launched",
    "fleet_ended",
    "worker_respawned",
    "worker_failed",
    "worker_restarted",
    "worker_left",
    "worker_out",
)
"""Launches of managers and ends of workers."""
_MEASURED_OFTEN: Final = ("rolldeck/accepted_per_second", "rolldeck/queue/depth")
# The last sample at a time: an unpacked row, or else one of the last chunk that had begun.
_PLACES: Final = """
    SELECT tail.step, tail.amount, c.times, c.steps, c.amounts
    FROM unnest(%(at)s::timestamptz[], %(micros)s::bigint[]) WITH ORDINALITY t(at, micros, place)
    LEFT JOIN LATERAL (
        SELECT step, amount FROM rollouts_metricsample
        WHERE series_id = %(series)s AND at <= t.at ORDER BY id DESC LIMIT 1
    ) tail ON true
    LEFT JOIN LATERAL (
        SELECT times, steps, amounts FROM rollouts_metricchunk
        WHERE series_id = %(series)s AND time_min <= t.micros ORDER BY number DESC LIMIT 1
    ) c ON tail.step IS NULL
    ORDER BY t.place"""


class Change(NamedTuple):
    """A change of a run, without its position."""

    id: int
    kind: str
    message: str
    at: datetime


class AxisPosition(NamedTuple):
    """Position of a time on the axes other than time; None before the first measurement."""

    step: int | None
    amount: int | None


def annotations(run_id: int, *, asker: str, with_fleet: bool = False) -> Annotations:
    """Return a run's annotations, and the changes of the run that its charts show.

    Launches, ends of workers and published versions are included `with_fleet`.
    """
    rows = list(
        Annotation.objects.filter(run_id=run_id, deleted_at=None).order_by("-at", "-pk")[
            :ANNOTATIONS_AT_MOST
        ]
    )[::-1]
    names = token_names(row.created_by for row in rows)
    changes = _events(run_id, SHOWN_EVENTS)
    if with_fleet:
        changes += _events(run_id, FLEET_EVENTS)
        versions = PolicyVersion.objects.filter(run_id=run_id).order_by("-pk")
        columns = versions.values_list("pk", "epoch", "step", "published_at")[:EVENTS_AT_MOST]
        changes += [
            Change(pk, "weights_version", f"version {step} of epoch {epoch}", at)
            for pk, epoch, step, at in columns
        ][::-1]
        changes.sort(key=lambda change: change.at)
    places = axis_positions(run_id, [change.at for change in changes])
    return Annotations(
        results=[annotation_row(row, names=names, asker=asker) for row in rows],
        next=None,
        events=[
            ChartEvent(**change._asdict(), **place._asdict())
            for change, place in zip(changes, places, strict=True)
        ],
    )


def _events(run_id: int, kinds: Sequence[str]) -> list[Change]:
    found = RunEvent.objects.filter(run_id=run_id, kind__in=kinds).order_by("-pk")
    rows = found.values_list("pk", "kind", "message", "at")[:EVENTS_AT_MOST]
    return [Change(*row) for row in rows][::-1]


def annotation_row(row: Annotation, *, names: dict[str, str], asker: str) -> AnnotationRow:
    """Return an annotation in the API format; `names` are the names of tokens by identity."""
    return AnnotationRow(
        id=row.pk,
        text=row.text,
        at=row.at,
        step=row.step,
        amount=row.amount,
        created_at=row.created_at,
        created_by=shown_name(row.created_by, names),
        is_own=row.created_by == asker,
    )


def axis_positions(run_id: int, moments: Sequence[datetime]) -> list[AxisPosition]:
    """Return the positions of times on a run's charts, from the last measurement before each."""
    # A frequently measured series: a built-in metric if there is one.
    series = MetricSeries.objects.filter(run_id=run_id)
    own = series.filter(name__in=_MEASURED_OFTEN).order_by("name")
    ids = own.values_list("pk", flat=True)
    series_id = ids.first() or series.order_by("-chunks", "pk").values_list("pk", flat=True).first()
    if series_id is None or not moments:
        return [AxisPosition(None, None) for _ in moments]
    micros = [(at - EPOCH) // timedelta(microseconds=1) for at in moments]
    parameters = {"series": series_id, "at": list(moments), "micros": micros}
    with sql.cursor() as cursor:
        rows = cursor.execute(_PLACES, parameters, binary=True).fetchall()
    positions = []
    for (step, amount, *packed), at in zip(rows, micros, strict=True):
        if step is None and packed[0] is not None:
            times, steps, amounts = (np.frombuffer(raw, ">i8") for raw in packed)
            index = int(np.flatnonzero(times <= at)[-1])
            positions.append(AxisPosition(int(steps[index]), int(amounts[index])))
        else:
            positions.append(AxisPosition(step, amount))
    return positions
