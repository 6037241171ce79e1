"""Costs of runs: use of their data, and the lifetime of their workers."""

from collections.abc import Sequence
from typing import Any, Final

from django.db import connection
from django.db.models import Count, Sum

from buffer.items.models.items import Batch
from buffer.items.queries import counts as queries_counts
from buffer.items.rules.states import BatchState, ItemKind
from rollouts.metrics.schemas.costs import RunCost
from runs.lifecycle.models.runs import Run

# The lifetime of a living worker ends at its last heartbeat.
_WORKER_SECONDS: Final = """
    SELECT f.run_id, sum(extract(epoch FROM greatest(
        coalesce(a.ended_at, w.heartbeat_at, a.started_at) - a.started_at, interval '0')))::float8
    FROM rollouts_workerattempt a
    JOIN rollouts_fleet f ON f.id = a.fleet_id
    LEFT JOIN rollouts_fleetworker w
        ON w.fleet_id = a.fleet_id AND w.incarnation = a.incarnation
    WHERE f.run_id = ANY(%s) GROUP BY f.run_id"""


def run_costs(runs: Sequence[Run]) -> list[RunCost]:
    """Return the cost of each run, in the same order."""
    ids = [run.pk for run in runs]
    with connection.cursor() as cursor:
        cursor.execute(_WORKER_SECONDS, [ids])
        seconds: dict[int, float] = dict(cursor.fetchall())
    confirmed = Batch.objects.filter(run__in=ids, state=BatchState.CONFIRMED).values("run_id")
    counts = confirmed.annotate(
        batches=Count("id"), sequence_sum=Sum("sequences"), token_sum=Sum("tokens")
    )
    served: dict[int, Any] = {row["run_id"]: row for row in counts}
    return [_cost(run, served.get(run.pk, {}), seconds.get(run.pk)) for run in runs]


def _cost(run: Run, served: dict[str, Any], worker_seconds: float | None) -> RunCost:
    is_groups = run.takes_groups
    kind = ItemKind.GROUPS if is_groups else ItemKind.FRAGMENTS
    ledger = queries_counts.ledger(run.pk, kind)
    gpus = gpus_per_worker(run.config)
    return RunCost(
        run=run.name,
        unit="groups" if is_groups else "fragments",
        ledger=queries_counts.kind_ledger(ledger),
        confirmed_batches=served.get("batches", 0),
        served_sequences=int(served.get("sequence_sum") or 0) if is_groups else None,
        served_tokens=int(served.get("token_sum") or 0) if is_groups else None,
        worker_seconds=worker_seconds,
        gpu_seconds=None if worker_seconds is None or gpus is None else worker_seconds * gpus,
    )


def gpus_per_worker(config: dict[str, Any]) -> float | None:
    """Return the number of GPUs that each worker of a run reserves; None if not configured."""
    fleet = config.get("fleet")
    gpus = fleet.get("num_gpus_per_worker") if isinstance(fleet, dict) else None
    return float(gpus) if isinstance(gpus, int | float) else None
