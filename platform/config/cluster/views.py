"""Views of the cluster, of retention and of the deployment's identity."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal

from django.conf import settings
from django.db import connection
from django.db.models import Count, Min, Q, QuerySet, Sum
from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from msgspec import Struct
from rest_framework.request import Request

from buffer.capture.models import CaptureSession
from buffer.payloads.models import Segment
from config.cluster.messages import Cluster, ServerInfo
from config.cluster.status import cluster_status
from config.versions import own_version
from rollouts.control.models import Recording
from runs.access import rules
from runs.access.api.identity import caller_of, person_of
from runs.access.api.permissions import Known, Readers
from runs.events.models import RunEvent
from runs.lifecycle.models import PolicyVersion
from runs.weights.services import KEPT_FILES
from web.http.bodies import answer
from web.http.views import ApiView
from web.rules.pages import Page

# Views of the cluster status and of the deployment's identity.


class ClusterView(ApiView):
    """Status of the deployment's parts."""

    permission_classes = [Readers]

    @extend_schema(operation_id="cluster_get", responses={200: Cluster}, tags=["server"])
    def get(self, request: Request) -> HttpResponse:
        """Get the cluster status.

        Processes, workers, Ray, database, broker and storage. Addresses are shown to
        administrators only.

        Each part is probed for at most one second; a part that does not answer is reported
        as unreachable.
        """
        return answer(cluster_status(is_admin=rules.may_administer(caller_of(request))))


class ServerView(ApiView):
    """Identity of the deployment."""

    permission_classes = [Known]

    @extend_schema(operation_id="server_get", responses={200: ServerInfo}, tags=["server"])
    def get(self, request: Request) -> HttpResponse:
        """Get the server's version and sign-in options."""
        person = person_of(request)
        return answer(
            ServerInfo(
                version=own_version(),
                deployment=settings.ROLLDECK_DEPLOYMENT,
                colour=settings.ROLLDECK_DEPLOYMENT_COLOUR,  # type: ignore[arg-type] # one of these
                auth=settings.ROLLDECK_AUTH,  # type: ignore[arg-type]
                time_zone=settings.TIME_ZONE,
                has_password=person is not None and person.has_usable_password(),
            )
        )


# Retention by kind of data: limits, their settings, and the current size.

RetainedData = Literal[
    "payloads", "weights", "recordings", "archives", "captures", "outcomes", "alerts", "metrics"
]
_TABLES: Final[dict[RetainedData, tuple[str, ...]]] = {
    "outcomes": ("rollouts_lessonoutcome",),
    "alerts": ("runs_alert", "runs_alertdelivery"),
    "metrics": ("rollouts_metricsample", "rollouts_metricchunk"),
}
# From PostgreSQL's statistics: counting millions of rows would take seconds.
_SIZES: Final = """
    SELECT relname, pg_total_relation_size(oid), GREATEST(reltuples, 0)::bigint FROM pg_class
    WHERE relkind = 'r' AND relname = ANY(%s)"""


class RetentionLimit(Struct, frozen=True, kw_only=True):
    """One limit on the retained data."""

    setting: str
    """Empty if the limit is not a setting."""
    value: int
    """0 means without limit, for a setting."""
    unit: Literal["seconds", "days", "bytes", "items", "per_run"]


class RetentionRow(Struct, frozen=True, kw_only=True):
    """One kind of data with its limits and size."""

    what: RetainedData
    limits: list[RetentionLimit]
    """Data above any limit is deleted; without limits it is kept as long as its run."""
    size_bytes: int
    count: int
    is_estimate: bool
    """Whether the count is an estimate from PostgreSQL's statistics."""
    oldest_at: datetime | None
    """Null if nothing is kept or the age is not tracked."""


class RetentionList(Page[RetentionRow], frozen=True, kw_only=True):
    """All data with a retention limit or unlimited growth, and the time of the last backup."""

    backed_up_at: datetime | None
    """Null if no backup is recorded in the audit log."""


class RetentionView(ApiView):
    """Retention of the deployment's data."""

    permission_classes = [Readers]

    @extend_schema(operation_id="server_retention", responses={200: RetentionList}, tags=["server"])
    def get(self, request: Request) -> HttpResponse:
        """List retention periods.

        For each kind of data, in a fixed order: the limits with their settings, the size and the
        count.
        """
        del request
        last = RunEvent.objects.filter(kind="server_backed_up").order_by("-id").first()
        return answer(
            RetentionList(
                results=[*_stored(), *_estimated()],
                next=None,
                backed_up_at=None if last is None else last.at,
            )
        )


def _limit(setting: str, unit: Any, *, value: int | None = None) -> RetentionLimit:
    known = int(getattr(settings, setting)) if value is None else value
    return RetentionLimit(setting=setting, value=known, unit=unit)


def _stored() -> Iterator[RetentionRow]:
    """Yield the data of which size, count and age are known."""
    payloads = [
        _limit("ROLLDECK_RETENTION_SECONDS", "seconds"),
        _limit("ROLLDECK_RETENTION_BYTES", "bytes"),
        _limit("ROLLDECK_RETENTION_ITEMS", "items"),
    ]
    kinds: list[tuple[RetainedData, list[RetentionLimit], QuerySet[Any], Any, str]] = [
        ("payloads", payloads, Segment.objects.filter(dropped_at=None), Sum("items"), "opened_at"),
        (
            "weights",
            [_limit("", "per_run", value=KEPT_FILES)],
            PolicyVersion.objects.exclude(file=""),
            Count("id"),
            "published_at",
        ),
        (
            "recordings",
            [_limit("ROLLDECK_RECORDINGS_PER_RUN", "per_run")],
            Recording.objects.exclude(file=""),
            Count("id"),
            "finished_at",
        ),
        (
            "captures",
            [_limit("ROLLDECK_CAPTURE_SECONDS", "seconds")],
            CaptureSession.objects.all(),
            Count("id", filter=Q(size_bytes__gt=0)),
            "created_at",
        ),
    ]
    for what, limits, rows, number, since in kinds:
        found = rows.aggregate(size=Sum("size_bytes"), count=number, oldest=Min(since))
        yield RetentionRow(
            what=what,
            limits=limits,
            size_bytes=int(found["size"] or 0),
            count=int(found["count"] or 0),
            is_estimate=False,
            oldest_at=found["oldest"],
        )
    folder = Path(settings.ROLLDECK_VAR) / "archives"
    files = [path.stat() for path in folder.glob("*.parquet")] if folder.is_dir() else []
    oldest = min((file.st_mtime for file in files), default=None)
    yield RetentionRow(
        what="archives",
        limits=[_limit("ROLLDECK_ARCHIVE_SECONDS", "seconds")],
        size_bytes=sum(file.st_size for file in files),
        count=len(files),
        is_estimate=False,
        oldest_at=None if oldest is None else datetime.fromtimestamp(oldest, tz=UTC),
    )


def _estimated() -> Iterator[RetentionRow]:
    """Yield the tables whose rows PostgreSQL estimates."""
    limits: dict[RetainedData, list[RetentionLimit]] = {
        "outcomes": [
            _limit("ROLLDECK_OUTCOME_SECONDS", "seconds"),
            _limit("ROLLDECK_OUTCOME_ROWS", "items"),
        ],
        "alerts": [_limit("ROLLDECK_ALERT_RETENTION_DAYS", "days")],
    }
    with connection.cursor() as cursor:
        cursor.execute(_SIZES, [[name for names in _TABLES.values() for name in names]])
        sizes = {name: (int(size), int(rows)) for name, size, rows in cursor.fetchall()}
    for what, tables in _TABLES.items():
        found = [sizes.get(name, (0, 0)) for name in tables]
        yield RetentionRow(
            what=what,
            limits=limits.get(what, []),
            size_bytes=sum(size for size, _ in found),
            count=sum(rows for _, rows in found),
            is_estimate=True,
            oldest_at=None,
        )
