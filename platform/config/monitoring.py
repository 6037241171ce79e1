"""Health checks and metrics of the server.

A gauge of items counts groups for an outside run and fragments for a fleet run.
"""

import json
import logging
import threading
from typing import Final

import redis
from django.conf import settings
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.db.models import Count
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from rest_framework.request import Request

from buffer.batches.queries.queues import queue_depth
from buffer.items import queries
from buffer.items.rules.ledger import Ledger
from buffer.items.rules.states import ItemKind
from config.own_folders import folder_problem
from rollouts.control.queries.fleets import weights_transfers
from runs.access.api.permissions import scoped
from runs.alerts.queries.alert_lists import unresolved_counts
from runs.deployment.queries import jobs_health
from runs.lifecycle.models import Run
from runs.lifecycle.rules import RunStatus
from web.disk_space import free_disk_bytes
from web.http.problems import respond
from web.http.views import ApiView
from web.outages import RETRY_AFTER_SECONDS
from web.rules.errors import Unavailable

logger = logging.getLogger(__name__)


# Prometheus gauges of the runs, computed from counts at each scrape.

# Runs that may hold queued items.
ACTIVE: Final = (RunStatus.STARTING, RunStatus.RUNNING, RunStatus.PAUSED, RunStatus.DRAINING)

_GAUGES: Final = {
    "queued_items": "Items waiting for a trainer.",
    "queued_sequences": "Sequences (or fragments) waiting for a trainer.",
    "waiting_items": "Groups waiting for other groups of their environment.",
    "leased_items": "Items leased by trainers.",
    "served_items": "Items acknowledged by trainers.",
    "accepted_items": "Items ever accepted.",
    "held_bytes": "Bytes of all waiting and leased items.",
    "queue_threshold_sequences": "Sequences (or fragments) above which producers pause.",
    "producers_paused": "1 while the queue is over its threshold.",
    "admission_capacity": "Sequences (or fragments) that producers may still start.",
    "running_items": "Fragments started and not yet delivered by the fleet.",
    "served_steps": "Batches leased.",
    "policy_step": "Step of the current policy version; -2 for none.",
    "truncated_groups": "Groups accepted with truncated sequences.",
    "ledger_balanced": "0 if an item was lost or counted twice.",
    "batch_wait_seconds": "Time that the oldest item of the newest batch waited in the queue.",
    "batch_staleness_versions": "Mean staleness of the newest batch's items, in policy versions.",
}
_NEWEST_BATCH: Final = """
    SELECT b.staleness, extract(epoch FROM b.leased_at - (
        SELECT MIN(received_at) FROM buffer_{table} i WHERE i.batch_id = b.id))
    FROM buffer_batch b WHERE b.run_id = %s ORDER BY b.ordinal DESC LIMIT 1"""
_QUERIES: Final = {
    ItemKind.GROUPS: _NEWEST_BATCH.format(table="trajectorygroup"),
    ItemKind.FRAGMENTS: _NEWEST_BATCH.format(table="fragmentchunk"),
}


def metrics_text() -> bytes:
    """Return the state of the runs as of now, in Prometheus' text format."""
    registry = CollectorRegistry()
    runs = Gauge("rolldeck_runs", "Runs by status.", ["status"], registry=registry)
    counts = dict(Run.objects.current().values_list("status").annotate(Count("pk")).order_by())
    for status in RunStatus:
        runs.labels(status).set(counts.get(str(status), 0))
    alerts = Gauge(
        "rolldeck_alerts", "Unresolved alerts.", ["state", "severity"], registry=registry
    )
    for (state, severity), count in unresolved_counts().items():
        alerts.labels(state, severity).set(count)
    disk = Gauge("rolldeck_free_disk_bytes", "Free bytes on the data disk.", registry=registry)
    disk.set(free_disk_bytes())
    jobs = Gauge(
        "rolldeck_jobs_age_seconds", "Seconds since a background job started.", registry=registry
    )
    jobs.set(jobs_health(now=timezone.now()).age_seconds)
    of_run = {
        name: Gauge(f"rolldeck_{name}", meaning, ["run"], registry=registry)
        for name, meaning in _GAUGES.items()
    }
    dropped = Gauge(
        "rolldeck_dropped_items",
        "Items that will never be trained on.",
        ["run", "reason"],
        registry=registry,
    )
    weights = Gauge(
        "rolldeck_weights",
        "Weights received by live workers: versions by state, bytes, and seconds of transfer.",
        ["run", "count"],
        registry=registry,
    )
    for run in Run.objects.current().filter(status__in=ACTIVE).order_by("pk"):
        kind = ItemKind.GROUPS if run.takes_groups else ItemKind.FRAGMENTS
        ledger = queries.ledger(run.pk, kind)
        for name, value in _figures(run, kind, ledger).items():
            of_run[name].labels(run.name).set(value)
        for reason, items in ledger.dropped.items():
            dropped.labels(run.name, reason).set(items)
        for what, amount in weights_transfers(run.pk).items():
            weights.labels(run.name, what).set(amount)
    text: bytes = generate_latest(registry)
    return text


def _figures(run: Run, kind: ItemKind, ledger: Ledger) -> dict[str, float]:
    """Return the values of the gauges in `_GAUGES`, as far as they are known."""
    depth = queue_depth(run.pk)
    figures = {
        "queued_items": depth.queued,
        "queued_sequences": depth.queued_sequences,
        "waiting_items": depth.waiting,
        "leased_items": depth.leased,
        "served_items": ledger.served,
        "accepted_items": ledger.accepted,
        "held_bytes": depth.size_bytes,
        "queue_threshold_sequences": depth.threshold,
        "producers_paused": float(depth.paused),
        "admission_capacity": depth.admission_capacity,
        "running_items": depth.running,
        "served_steps": depth.served_steps,
        "policy_step": run.policy_step,
        "truncated_groups": queries.truncated_groups(run.pk),
        "ledger_balanced": float(ledger.balanced and not run.ledger_problem),
    }
    with connection.cursor() as cursor:
        cursor.execute(_QUERIES[kind], [run.pk])
        newest_batch = cursor.fetchone()
    if newest_batch is not None:
        staleness_counts, wait_seconds = newest_batch
        if wait_seconds is not None:
            figures["batch_wait_seconds"] = float(wait_seconds)
        staleness = {
            int(versions): items for versions, items in json.loads(staleness_counts).items()
        }
        if staleness:
            total = sum(versions * items for versions, items in staleness.items())
            figures["batch_staleness_versions"] = total / sum(staleness.values())
    return figures


# Liveness, readiness and Prometheus metrics of this process.

REDIS_TIMEOUT_SECONDS: Final = 0.5

_migrated = threading.Event()
_has_own_folders = threading.Event()


class NotReady(Unavailable):
    """A server that requests need is unavailable; the text names it."""

    code = "not_ready"
    title = "Not ready"
    retry_after_seconds = RETRY_AFTER_SECONDS


def live(_request: HttpRequest) -> HttpResponse:
    """Return 200 while the process serves requests."""
    return JsonResponse({"status": "live"})


def ready(_request: HttpRequest) -> HttpResponse:
    """Return 200 if requests can be served, otherwise 503 with the state of each server.

    Redis only carries change notices: without it everything works with a second's delay.
    """
    parts = {"database": _database(), "redis": _redis()}
    if parts["database"] != "up":
        return respond(NotReady(f"database {parts['database']}, redis {parts['redis']}"))
    if not _are_folders_own():
        return respond(NotReady("a folder belongs to another deployment; the log names it"))
    return JsonResponse({"status": "ready", **parts})


class Metrics(ApiView):
    """Gauges in Prometheus' text format."""

    permission_classes = [scoped("metrics")]

    @extend_schema(exclude=True)
    def get(self, _request: Request) -> HttpResponse:
        """Return the state of the runs as of now."""
        return HttpResponse(metrics_text(), content_type=CONTENT_TYPE_LATEST)


metrics = Metrics.as_view()


def _database() -> str:
    """Return "up", "down", or "not migrated"; applied migrations are looked up only once."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        if not _migrated.is_set():
            executor = MigrationExecutor(connection)
            if executor.migration_plan(executor.loader.graph.leaf_nodes()):
                return "not migrated"
            _migrated.set()
    except DatabaseError:
        return "down"
    return "up"


def _are_folders_own() -> bool:
    """Return whether the folders may be those of the database; compared until they are."""
    if _has_own_folders.is_set():
        return True
    try:
        problem = folder_problem()
    except (DatabaseError, OSError) as error:
        logger.warning("folders not compared with the database: %s", error)
        return True
    if problem:
        logger.error("not ready: %s", problem)
        return False
    _has_own_folders.set()
    return True


def _redis() -> str:
    client = redis.Redis.from_url(
        settings.REDIS_URL,
        socket_timeout=REDIS_TIMEOUT_SECONDS,
        socket_connect_timeout=REDIS_TIMEOUT_SECONDS,
    )
    try:
        client.ping()
    except (redis.RedisError, OSError):
        return "down"
    finally:
        client.close()
    return "up"
