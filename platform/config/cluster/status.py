"""Status of all parts of the deployment, collected within about one second."""

import logging
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, Final, Generic, TypeVar
from urllib.parse import urlsplit

import msgspec
import psycopg
import redis
from celery import Celery, current_app
from django.conf import settings
from django.core.files.storage import storages
from django.db import connection
from django.db.models import Sum
from django.utils import timezone
from redis.backoff import NoBackoff
from redis.retry import Retry

from buffer.payloads.models import Segment
from config import heartbeats
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
from config.versions import versions
from rollouts import jobs
from rollouts.control.queries.machines import machine_cordons, workers_by_node
from runs.alerts.jobs import IN_A_HURRY
from runs.deployment import queries as deployment
from runs.deployment.models import ProcessHeartbeat

logger = logging.getLogger(__name__)


# Probe a part of the deployment in a thread, with a bounded wait for its answer.

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResult(Generic[T]):
    """Last known status of a part, with the answer of its last successful probe."""

    state: PartState
    answer: T | None = None
    confirmed_at: datetime | None = None
    took_ms: float | None = None
    problem: str = ""


class StatusProbe(Generic[T]):
    """Probe one part in a separate thread, one probe at a time.

        probe.start()                      # start the probes of several parts
        result = probe.result(by=deadline) # the status known by the deadline

    A probe that hangs keeps its thread. Readers do not wait for it, and no second probe starts
    until it ends.
    """

    def __init__(
        self,
        read: Callable[..., T],
        *,
        clock: Callable[[], datetime],
        fresh_seconds: float = 2.0,
        valid_seconds: float = 10.0,
    ) -> None:
        """Configure the probe without starting it.

        Args:
            read: Returns the part's answer, or raises if there is none. Receives the arguments of
                :meth:`start`.
            clock: Returns the time recorded for a successful probe.
            fresh_seconds: Minimum time between the end of a probe and the start of the next.
            valid_seconds: Time for which the last status stays valid during a slower probe.
        """
        self._read = read
        self._clock = clock
        self._fresh_seconds = fresh_seconds
        self._valid_seconds = valid_seconds
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._is_reading = False
        self._began = 0.0
        self._ended: float | None = None
        self._last: ProbeResult[T] = ProbeResult(state="unknown", problem="not probed yet")

    def start(self, *signal_arguments: Any) -> None:
        """Start a probe, unless one is running or has just ended."""
        with self._lock:
            fresh = self._ended is not None and (
                time.monotonic() - self._ended < self._fresh_seconds
            )
            if self._is_reading or fresh:
                return
            self._is_reading, self._began = True, time.monotonic()
            self._done.clear()
        threading.Thread(
            target=self._run, args=signal_arguments, name="rolldeck-probe", daemon=True
        ).start()

    def result(self, *, by: float) -> ProbeResult[T]:
        """Return the last status; `unknown` if it is old and the probe has not ended.

        Args:
            by: Deadline of the wait, on :func:`time.monotonic`'s clock.
        """
        self._done.wait(max(0.0, by - time.monotonic()))
        with self._lock:
            if not self._is_reading:
                return self._last
            now = time.monotonic()
            if self._ended is not None and now - self._ended < self._valid_seconds:
                return self._last
            waited = now - self._began
            return replace(self._last, state="unknown", problem=f"no answer for {waited:.1f} s")

    def _run(self, *signal_arguments: Any) -> None:
        try:
            answer = self._read(*signal_arguments)
        except Exception as error:
            logger.debug("deployment part does not answer", exc_info=True)
            first_line = str(error).strip().partition("\n")[0] or type(error).__name__
            result = replace(self._last, state="down", problem=first_line)
        else:
            result = ProbeResult(
                state="up",
                answer=answer,
                confirmed_at=self._clock(),
                took_ms=(time.monotonic() - self._began) * 1000,
            )
        with self._lock:
            self._last = result
            self._ended = time.monotonic()
            self._is_reading = False
        self._done.set()


# Probes of the deployment's parts; each asks once and raises if there is no answer.

ANSWER_SECONDS: Final = 0.9
"""Timeout of a probe."""
# The smallest connect timeout of libpq.
_CONNECT_SECONDS: Final = 2
_DEFAULT_QUEUE: Final = "celery"
_HURRY: Final = IN_A_HURRY | {"socket_timeout": 0.8}
_SESSIONS: Final = """
    SELECT current_setting('server_version'), current_setting('max_connections')::int,
        count(*), count(*) FILTER (WHERE state = 'active' AND pid <> pg_backend_pid()),
        count(*) FILTER (WHERE state LIKE 'idle in transaction%'),
        extract(epoch FROM now() - min(xact_start) FILTER (WHERE pid <> pg_backend_pid()))::float8,
        (SELECT count(*) FROM pg_stat_replication)
    FROM pg_stat_activity WHERE backend_type = 'client backend'"""


class NoWorkerAnswers(Exception):
    """No worker answered the broadcast."""


def database_figures(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return PostgreSQL's figures, over a separate connection.

    Args:
        params: Arguments of :func:`psycopg.connect`.

    Raises:
        psycopg.Error: If the server does not answer.
    """
    parameters = {name: value for name, value in params.items() if name != "pool"}
    parameters |= {"connect_timeout": _CONNECT_SECONDS, "autocommit": True}
    with psycopg.connect(**parameters) as own:
        own.execute(f"SET statement_timeout = {int(ANSWER_SECONDS * 1000)}")
        (row,) = own.execute(_SESSIONS).fetchall()
        try:
            sizes = own.execute("SELECT pg_database_size(current_database())").fetchone()
        except psycopg.errors.QueryCanceled:
            sizes = None  # it reads the size of every file
        return {
            "version": str(row[0]).split(" ")[0],
            "connections_at_most": row[1],
            "connections": row[2],
            "active": row[3],
            "idle_in_transaction": row[4],
            "oldest_transaction_seconds": row[5],
            "replicas": row[6],
            "size_bytes": None if sizes is None else int(sizes[0]),
        }


def database_params() -> dict[str, Any]:
    """Return the connection parameters of the deployment's database."""
    return dict(connection.get_connection_params())


def database_address(params: Mapping[str, Any]) -> str:
    """Return the location of the database, without credentials."""
    host, port = params.get("host") or "localhost", params.get("port")
    place = host if host.startswith("/") or not port else f"{host}:{port}"
    return f"{place} · {params.get('dbname', '')}"


def broker_address(url: str) -> str:
    """Return the location of the broker, without credentials."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def broker_figures(url: str) -> dict[str, Any]:
    """Return the figures of Valkey or Redis.

    Raises:
        redis.RedisError: If the server does not answer.
    """
    with redis.Redis.from_url(
        url,
        socket_timeout=ANSWER_SECONDS,
        socket_connect_timeout=ANSWER_SECONDS,
        retry=Retry(NoBackoff(), 0),
    ) as client:
        info: dict[str, Any] = client.info()
        waiting = client.llen(_DEFAULT_QUEUE)
    is_valkey = "valkey_version" in info
    return {
        "product": "Valkey" if is_valkey else "Redis",
        "version": str(info["valkey_version" if is_valkey else "redis_version"]),
        "memory_bytes": int(info["used_memory"]),
        "memory_at_most_bytes": int(info.get("maxmemory", 0)) or None,
        "clients": int(info["connected_clients"]),
        "uptime_seconds": int(info["uptime_in_seconds"]),
        "waiting_jobs": waiting,
    }


def active_jobs(app: Celery, workers: int = 0) -> dict[str, list[ActiveJob]]:
    """Return the running jobs of each worker that answers, by the worker's name.

    Args:
        app: The Celery app of the workers.
        workers: Number of answers to wait for. With 0 the call collects all answers of 0.45 s and
            takes a second, as kombu polls once per second.

    Raises:
        NoWorkerAnswers: If no worker answers.
        kombu.exceptions.OperationalError: If the broker is unavailable.
    """
    with app.connection_for_write(transport_options=_HURRY) as broker:
        broker.ensure_connection(max_retries=1, interval_start=0, interval_step=0)
        inspector = app.control.inspect(
            timeout=ANSWER_SECONDS / 2, connection=broker, limit=workers or None
        )
        answers = inspector.active() or {}
    if not answers:
        raise NoWorkerAnswers(f"no worker answered within {ANSWER_SECONDS / 2:.1f} s")
    active: dict[str, list[ActiveJob]] = {}
    for worker, jobs_of_worker in answers.items():
        active[worker] = []
        for job in jobs_of_worker:
            began = job.get("time_start")
            at = datetime.fromtimestamp(began, UTC) if isinstance(began, int | float) else None
            active[worker].append(ActiveJob(name=str(job.get("name", "")), started_at=at))
    return active


def storage_figures() -> dict[str, Any]:
    """Return the disk space for payloads; of a bucket, only check that it answers.

    Raises:
        OSError: If the folder is unavailable.
        Exception: Any error of the bucket's client.
    """
    storage: Any = storages["payloads"]
    if not hasattr(storage, "bucket_name"):
        # The first large payload creates the folder.
        folder = Path(storage.location)
        existing = next(each for each in (folder, *folder.parents) if each.is_dir())
        room = shutil.disk_usage(existing)
        return {"free_bytes": room.free, "total_bytes": room.total}
    storage.connection.meta.client.head_bucket(Bucket=storage.bucket_name)
    return {"free_bytes": None, "total_bytes": None}


def storage_location() -> tuple[str, str]:
    """Return the kind and the location of the payload storage."""
    storage: Any = storages["payloads"]
    if hasattr(storage, "bucket_name"):
        return "s3", f"{storage.bucket_name}/{storage.location}"
    return "files", str(storage.location)


# Status of all parts of the deployment, collected within about one second.

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
    since = timezone.now() - timedelta(seconds=2 * heartbeats.EVERY_SECONDS)
    live_workers = sum(part.kind == "worker" and part.confirmed_at >= since for part in parts)
    database, broker, workers, storage, ray = _probes(settings.REDIS_URL)
    for probe in (database, broker, storage):
        probe.start()
    workers.start(live_workers)
    if settings.RAY_ADDRESS:
        ray.start()  # makes a worker inspect Ray; its result is not awaited
    by = time.monotonic() + WAIT_SECONDS
    answers: ProbeResult[dict[str, list[ActiveJob]]] = workers.result(by=by)
    active = (answers.answer or {}) if answers.state == "up" else {}
    jobs_fields = _status_fields(answers, is_admin=is_admin)
    if problem := deployment.jobs_health(now=timezone.now()).problem:
        jobs_fields |= {"state": "down", "problem": f"jobs do not run: {problem}"}
    kind, place = storage_location()
    kept = Segment.objects.filter(dropped_at=None).aggregate(Sum("size_bytes"))
    return Cluster(
        at=timezone.now(),
        process_word_seconds=heartbeats.EVERY_SECONDS,
        web=[ProcessRow(**_own(part)) for part in parts if part.kind == "web"],
        workers=[
            WorkerRow(
                **_own(part),
                queues=part.details.get("queues", []),
                concurrency=part.details.get("concurrency"),
                active=active.get(part.name),
            )
            for part in parts
            if part.kind == "worker"
        ],
        schedulers=[ProcessRow(**_own(part)) for part in parts if part.kind == "scheduler"],
        jobs=Part(**jobs_fields),
        exits=_exits(is_admin=is_admin),
        ray=_ray(parts, is_admin=is_admin),
        database=_with_figures(
            DatabasePart,
            database.result(by=by),
            is_admin=is_admin,
            address=database_address(database_params()) if is_admin else None,
        ),
        broker=_with_figures(
            BrokerPart,
            broker.result(by=by),
            is_admin=is_admin,
            address=broker_address(settings.REDIS_URL) if is_admin else None,
        ),
        storage=_with_figures(
            StoragePart,
            storage.result(by=by),
            is_admin=is_admin,
            kind=kind,
            place=place if is_admin else None,
            keep_free_bytes=settings.ROLLDECK_MIN_FREE_DISK_BYTES,
            kept_bytes=int(kept["size_bytes__sum"] or 0),
        ),
        placements=[
            NodeWorkers(node=node, node_id=node_id, run=run, run_uid=uid, workers=count)
            for node, node_id, run, uid, count in workers_by_node()
        ],
        cordons=machine_cordons(),
        versions=versions(),
    )


def cluster_part() -> Cluster:
    """Return the status for the live page of readers of all runs."""
    return cluster_status(is_admin=False)


def cluster_admin_part() -> Cluster:
    """Return the status for the live page of administrators."""
    return cluster_status(is_admin=True)


@cache
def _probes(redis_url: str) -> tuple[StatusProbe[Any], ...]:
    """Return the probes of the database, the broker, the workers, the storage and Ray."""
    return (
        StatusProbe(lambda: database_figures(database_params()), clock=timezone.now),
        StatusProbe(lambda: broker_figures(redis_url), clock=timezone.now),
        StatusProbe(lambda known: active_jobs(current_app, known), clock=timezone.now),
        StatusProbe(storage_figures, clock=timezone.now, fresh_seconds=10.0),
        StatusProbe(
            jobs.queue_cluster_reading, clock=timezone.now, fresh_seconds=RAY_PROBE_SECONDS
        ),
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
