"""Resource usage of the workers of fleets that report, for their series."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from django.db.models import Avg, Count, FloatField, Max, Min, Q, QuerySet, Sum
from django.db.models.functions import Cast

from rollouts.control.models.fleets import FleetWorker
from rollouts.control.rules.last_reports import UNKNOWN_AFTER
from rollouts.metrics.models.metrics import MetricSeries
from rollouts.metrics.queries.metrics import Sample, newest_samples
from rollouts.metrics.rules.resources import WORKERS_LISTED
from runs.lifecycle.models.runs import Run

RECENT: Final = timedelta(minutes=5)
"""Age of a fleet's last report up to which the end of its series is recorded."""
_HAS_GPU: Final = Q(gpu_percent__isnull=False, gpu_memory_bytes__isnull=False)
_PER_WORKER: Final = ("cpu_percent", "memory_bytes")
_PER_DEVICE: Final = ("gpu_percent", "gpu_memory_bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetUsage:
    """Usage of the measured workers of one fleet."""

    workers: int = 0
    """Workers with a recent report that contains CPU and memory."""
    sums: Mapping[str, Any] = field(default_factory=dict)
    """Sum, min, mean and max by field, as `memory_bytes_max`; None where nothing was measured."""
    single: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    """Fields by worker, of a fleet with few workers."""


def runs_with_fleets(*, now: datetime) -> list[Run]:
    """Return the current runs whose fleet has reported within the last minutes."""
    found = Run.objects.current().filter(fleet__heard_at__gte=now - RECENT)
    return list(found.order_by("pk"))


def newest_of(run_ids: Collection[int], *, name: str) -> dict[int, Sample]:
    """Return the newest sample of a series by run."""
    series = dict(
        MetricSeries.objects.filter(run_id__in=run_ids, name=name).values_list("pk", "run_id")
    )
    return {series[pk]: sample for pk, sample in newest_samples(list(series)).items()}


def fleet_usages(run_ids: Collection[int], *, now: datetime) -> dict[int, FleetUsage]:
    """Return the usage of each run's fleet; runs without measured workers are omitted."""
    measured = _measured(now).filter(fleet__run_id__in=run_ids)
    rows = measured.values("fleet__run_id").annotate(
        count=Count("pk"), **_totals("cpu_percent"), **_totals("memory_bytes"), **_devices()
    )
    found: dict[int, dict[str, Any]] = {row["fleet__run_id"]: dict(row) for row in rows.order_by()}
    small = [run_id for run_id, row in found.items() if row["count"] <= WORKERS_LISTED]
    single = _singles(small, now)
    return {
        run_id: FleetUsage(workers=row["count"], sums=row, single=single.get(run_id, {}))
        for run_id, row in found.items()
    }


def _measured(now: datetime) -> QuerySet[FleetWorker]:
    fresh = FleetWorker.objects.filter(heartbeat_at__gt=now - UNKNOWN_AFTER)
    measured = fresh.filter(cpu_percent__isnull=False, memory_bytes__isnull=False)
    return measured.exclude(state__in=("stopped", "failed"))


def _totals(name: str) -> dict[str, Any]:
    value = Cast(name, FloatField())
    return {
        f"{name}_{word}": of(value)
        for word, of in (("sum", Sum), ("min", Min), ("mean", Avg), ("max", Max))
    }


def _devices() -> dict[str, Any]:
    """Return the aggregates of GPU values; workers that share a device both report it."""
    return {
        f"{name}_{word}": of(Cast(name, FloatField()), filter=_HAS_GPU)
        for name in _PER_DEVICE
        for word, of in (("min", Min), ("mean", Avg), ("max", Max))
    }


def _singles(run_ids: Collection[int], now: datetime) -> dict[int, dict[int, dict[str, Any]]]:
    rows = _measured(now).filter(fleet__run_id__in=run_ids, index__lt=WORKERS_LISTED)
    found: dict[int, dict[int, dict[str, Any]]] = {}
    for row in rows.order_by("index").values("fleet__run_id", "index", *_PER_WORKER, *_PER_DEVICE):
        found.setdefault(row["fleet__run_id"], {})[row["index"]] = dict(row)
    return found
