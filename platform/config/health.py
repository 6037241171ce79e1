"""Liveness, readiness and Prometheus metrics of this process."""

import logging
import threading
from typing import Final

import redis
from django.conf import settings
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, HttpResponse, JsonResponse
from drf_spectacular.utils import extend_schema
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from rest_framework.request import Request

from config.metrics import metrics_text
from config.own_folders import folder_problem
from runs.access.api.permissions import scoped
from web.http.problems import respond
from web.http.views import ApiView
from web.outages import RETRY_AFTER_SECONDS
from web.rules.errors import Unavailable

logger = logging.getLogger(__name__)

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
