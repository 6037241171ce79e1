"""Status of all parts of the deployment, collected within about one second."""

import time
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from functools import cache
from typing import Any, Final, TypeVar

import msgspec
from celery import current_app
from django.conf import settings
from django.db.models import Sum
from django.utils import timezone

from buffer.payloads.models import Segment
from config import heartbeats
from config.cluster import probes
from config.cluster.messages import (
    ActiveJob,
    BrokerPart,
    Cluster,
    DatabasePart,
    NodeWorkers,
    Part,
    PartExitRow,
    PartState,
    ProcessRow,
    RayNode,
    RayPart,
    StoragePart,
    WorkerRow,
)
from config.cluster.status_probe import ProbeResult, StatusProbe
from config.versions import versions
from rollouts import jobs
from rollouts.control.queries.machines import machine_cordons, workers_by_node
from runs.deployment import queries as deployment
from runs.deployment.models import ProcessHeartbeat

P = TypeVar("P", bound=Part)
WAIT_SECONDS: Final = 1.0
"""Total time to wait for all probes."""
RAY_PROBE_SECONDS: Final = 5.0
_RAY_STATUS_SECONDS: Final = 90.0


def cluster_status(*, is_admin: bool) -> Cluster:
    """Return the status of every part; only administrators get addresses and raw errors.

    The probes run in parallel and are shared by concurrent readers.
    """
    parts = list(ProcessHeartbeat.objects.order_by("name"))
    database, broker, workers, storage = _probes(settings.REDIS_URL)
    for probe in (database, broker, storage):
        probe.start()
    workers.start(_live_workers(parts))
    if settings.RAY_ADDRESS:
        _ray_probe().start()
    by = time.monotonic() + WAIT_SECONDS
    return _cluster(
        parts,
        database=database.result(by=by),
        broker=broker.result(by=by),
        workers=workers.result(by=by),
        storage=storage.result(by=by),
        is_admin=is_admin,
    )


def cluster_part() -> Cluster:
    """Return the status for the live page of readers of all runs."""
    return cluster_status(is_admin=False)


def cluster_admin_part() -> Cluster:
    """Return the status for the live page of administrators."""
    return cluster_status(is_admin=True)


@cache
def _probes(redis_url: str) -> tuple[StatusProbe[Any], ...]:
    """Return the probes of the database, the broker, the workers and the storage."""
    return (
        StatusProbe(lambda: probes.database_figures(probes.database_params()), clock=timezone.now),
        StatusProbe(lambda: probes.broker_figures(redis_url), clock=timezone.now),
        StatusProbe(lambda known: probes.active_jobs(current_app, known), clock=timezone.now),
        StatusProbe(probes.storage_figures, clock=timezone.now, fresh_seconds=10.0),
    )


@cache
def _ray_probe() -> StatusProbe[None]:
    """Return the probe that makes a worker inspect Ray; its result is not awaited."""
    return StatusProbe(
        jobs.queue_cluster_reading, clock=timezone.now, fresh_seconds=RAY_PROBE_SECONDS
    )


def _live_workers(parts: Iterable[ProcessHeartbeat]) -> int:
    """Return the number of job workers with a recent heartbeat."""
    since = timezone.now() - timedelta(seconds=2 * heartbeats.EVERY_SECONDS)
    return sum(part.kind == "worker" and part.confirmed_at >= since for part in parts)


def _cluster(
    parts: Sequence[ProcessHeartbeat],
    *,
    database: ProbeResult[dict[str, Any]],
    broker: ProbeResult[dict[str, Any]],
    workers: ProbeResult[dict[str, list[ActiveJob]]],
    storage: ProbeResult[dict[str, Any]],
    is_admin: bool,
) -> Cluster:
    kind, place = probes.storage_location()
    kept = Segment.objects.filter(dropped_at=None).aggregate(Sum("size_bytes"))
    return Cluster(
        at=timezone.now(),
        process_word_seconds=heartbeats.EVERY_SECONDS,
        web=[ProcessRow(**_own(part)) for part in parts if part.kind == "web"],
        workers=[_worker(part, workers) for part in parts if part.kind == "worker"],
        schedulers=[ProcessRow(**_own(part)) for part in parts if part.kind == "scheduler"],
        jobs=_jobs(workers, is_admin=is_admin),
        exits=_exits(is_admin=is_admin),
        ray=_ray(parts, is_admin=is_admin),
        database=_with_figures(
            DatabasePart,
            database,
            is_admin=is_admin,
            address=probes.database_address(probes.database_params()) if is_admin else None,
        ),
        broker=_with_figures(
            BrokerPart,
            broker,
            is_admin=is_admin,
            address=probes.broker_address(settings.REDIS_URL) if is_admin else None,
        ),
        storage=_with_figures(
            StoragePart,
            storage,
            is_admin=is_admin,
            kind=kind,
            place=place if is_admin else None,
            keep_free_bytes=settings.ROLLDECK_MIN_FREE_DISK_BYTES,
            kept_bytes=int(kept["size_bytes__sum"] or 0),
        ),
        placements=[
            NodeWorkers(node=node, node_id=node_id, run=run, workers=workers)
            for node, node_id, run, workers in workers_by_node()
        ],
        cordons=machine_cordons(),
        versions=versions(),
    )


def _status_fields(result: ProbeResult[Any], *, is_admin: bool) -> dict[str, Any]:
    return {
        "state": result.state,
        "confirmed_at": result.confirmed_at,
        "problem": _problem_text(result.problem, result.state, is_admin=is_admin),
        "took_ms": result.took_ms,
    }


def _problem_text(problem: str, state: PartState, *, is_admin: bool) -> str:
    """Return a problem for this reader: raw library errors may contain addresses."""
    return problem if is_admin or state != "down" else "no answer"


def _with_figures(
    part: Callable[..., P], result: ProbeResult[dict[str, Any]], *, is_admin: bool, **more: Any
) -> P:
    return part(**_status_fields(result, is_admin=is_admin), **(result.answer or {}), **more)


def _jobs(result: ProbeResult[Any], *, is_admin: bool) -> Part:
    """Return the answer of the job processes, or why no jobs run."""
    fields = _status_fields(result, is_admin=is_admin)
    if problem := deployment.jobs_health(now=timezone.now()).problem:
        fields |= {"state": "down", "problem": f"jobs do not run: {problem}"}
    return Part(**fields)


def _exits(*, is_admin: bool) -> list[PartExitRow]:
    names = [name for name in PartExitRow.__struct_fields__ if name != "log"]
    return [
        PartExitRow(
            **{name: getattr(row, name) for name in names}, log=row.log if is_admin else None
        )
        for row in deployment.part_exits(now=timezone.now())
    ]


def _own(part: ProcessHeartbeat) -> dict[str, Any]:
    names = ("name", "host", "pid", "started_at", "confirmed_at", "version")
    own = {name: getattr(part, name) for name in names}
    return own | {"memory_bytes": part.details.get("memory_bytes")}


def _worker(part: ProcessHeartbeat, result: ProbeResult[dict[str, list[ActiveJob]]]) -> WorkerRow:
    report = result.answer if result.state == "up" else None
    return WorkerRow(
        **_own(part),
        queues=part.details.get("queues", []),
        concurrency=part.details.get("concurrency"),
        active=(report or {}).get(part.name),
    )


def _ray(parts: Iterable[ProcessHeartbeat], *, is_admin: bool) -> RayPart:
    address = settings.RAY_ADDRESS
    if not address:
        problem = "RAY_ADDRESS is empty: this deployment launches no fleets"
        return RayPart(state="absent", confirmed_at=None, problem=problem, took_ms=None)
    seen = next((one for one in parts if one.kind == "ray" and one.name == address), None)
    if seen is None:
        problem = "no worker has probed it yet"
        return RayPart(state="unknown", confirmed_at=None, problem=problem, took_ms=None)
    is_fresh = (timezone.now() - seen.confirmed_at).total_seconds() < _RAY_STATUS_SECONDS
    state: PartState = "down" if seen.problem else "up" if is_fresh else "unknown"
    return RayPart(
        state=state,
        confirmed_at=seen.confirmed_at if seen.details else None,
        problem=_problem_text(seen.problem, state, is_admin=is_admin),
        took_ms=None,
        address=address if is_admin else None,
        nodes=msgspec.convert(seen.details.get("nodes", []), list[RayNode]),
    )
