"""Probes of the deployment's parts; each asks once and raises if there is no answer."""

import shutil
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import psycopg
import redis
from celery import Celery
from django.core.files.storage import storages
from django.db import connection
from redis.backoff import NoBackoff
from redis.retry import Retry

from config.cluster.messages import ActiveJob

ANSWER_SECONDS: Final = 0.9
"""Timeout of a probe."""
# The smallest connect timeout of libpq.
_CONNECT_SECONDS: Final = 2
_DEFAULT_QUEUE: Final = "celery"
_HURRY: Final[dict[str, Any]] = {
    "max_retries": 1,
    "interval_start": 0,
    "interval_step": 0,
    "interval_max": 0,
    "socket_connect_timeout": 0.4,
    "socket_timeout": 0.8,
}
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
        return {
            "version": str(row[0]).split(" ")[0],
            "connections_at_most": row[1],
            "connections": row[2],
            "active": row[3],
            "idle_in_transaction": row[4],
            "oldest_transaction_seconds": row[5],
            "replicas": row[6],
            "size_bytes": _size_of(own),
        }


def _size_of(own: "psycopg.Connection[Any]") -> int | None:
    try:
        ((size,),) = own.execute("SELECT pg_database_size(current_database())").fetchall()
    except psycopg.errors.QueryCanceled:
        return None  # it reads the size of every file
    return int(size)


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
    return {name: [_active(job) for job in jobs] for name, jobs in answers.items()}


def _active(job: Mapping[str, Any]) -> ActiveJob:
    began = job.get("time_start")
    at = datetime.fromtimestamp(began, UTC) if isinstance(began, int | float) else None
    return ActiveJob(name=str(job.get("name", "")), started_at=at)


def storage_figures() -> dict[str, Any]:
    """Return the disk space for payloads; of a bucket, only check that it answers.

    Raises:
        OSError: If the folder is unavailable.
        Exception: Any error of the bucket's client.
    """
    storage: Any = storages["payloads"]
    if not hasattr(storage, "bucket_name"):
        room = shutil.disk_usage(_existing(str(storage.location)))
        return {"free_bytes": room.free, "total_bytes": room.total}
    storage.connection.meta.client.head_bucket(Bucket=storage.bucket_name)
    return {"free_bytes": None, "total_bytes": None}


def storage_location() -> tuple[str, str]:
    """Return the kind and the location of the payload storage."""
    storage: Any = storages["payloads"]
    if hasattr(storage, "bucket_name"):
        return "s3", f"{storage.bucket_name}/{storage.location}"
    return "files", str(storage.location)


def _existing(folder: str) -> str:
    """Return the folder or its nearest ancestor: the first large payload creates the folder."""
    path = Path(folder)
    return str(next(each for each in (path, *path.parents) if each.is_dir()))
