"""Counts of open work on the start page of the admin, with links to the rows."""

from dataclasses import dataclass
from typing import Any, Final

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse

from buffer.archive.models import ArchiveJob, ArchiveState
from buffer.items.models import Batch
from buffer.items.rules.states import BatchState
from runs.alerts.models import Alert, AlertDelivery
from runs.alerts.rules import AlertState
from runs.lifecycle.models import Run
from runs.lifecycle.rules import RunStatus

COUNTED_AT_MOST: Final = 1_000
"""Upper bound of rows counted for one figure; larger counts are shown as "over N"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """The number of open rows of one kind, with a link to them.

    Attributes:
        label: Name of the counted rows.
        count: At most :data:`COUNTED_AT_MOST`, or one more if there are more.
        address: URL of the list of these rows.
        is_bad: Whether any count above 0 is a problem.
    """

    label: str
    count: int
    address: str
    is_bad: bool

    @property
    def counted(self) -> str:
        """Format the count for display."""
        if self.count <= COUNTED_AT_MOST:
            return f"{self.count:,}"
        return f"over {COUNTED_AT_MOST:,}"


# Label, rows, the list of these rows, and whether one is too many. Each count uses an index of
# open rows or a small table.
_ASKED: Final[tuple[tuple[str, QuerySet[Any], str, bool], ...]] = (
    (
        "alerts open",
        Alert.objects.filter(state=AlertState.OPEN),
        "runs_alert?state__exact=open",
        True,
    ),
    (
        "runs under way",
        Run.objects.filter(status=RunStatus.RUNNING),
        "runs_run?status__exact=running",
        False,
    ),
    (
        "runs failed",
        Run.objects.filter(status=RunStatus.FAILED),
        "runs_run?status__exact=failed",
        True,
    ),
    (
        "batches left by their trainer",
        Batch.objects.filter(state=BatchState.RETURNED),
        "buffer_batch?state__exact=returned",
        False,
    ),
    (
        "batches in quarantine",
        Batch.objects.filter(state=BatchState.QUARANTINED),
        "buffer_batch?state__exact=quarantined",
        True,
    ),
    (
        "archives failed",
        ArchiveJob.objects.filter(state=ArchiveState.FAILED),
        "buffer_archivejob?state__exact=failed",
        True,
    ),
    (
        "webhook calls given up",
        AlertDelivery.objects.filter(state="given up"),
        "runs_alertdelivery?state__exact=given+up",
        True,
    ),
)


def attention(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """Return the context of the start page with the figures that the user may see."""
    return context | {"attention": figures(request)}


def figures(request: HttpRequest) -> list[Figure]:
    """Return the figures of the models that the user may view."""
    return [
        Figure(label=label, count=_counted(rows), address=_address(place), is_bad=is_bad)
        for label, rows, place, is_bad in _ASKED
        if admin.site.get_model_admin(rows.model).has_view_permission(request)
    ]


def _counted(rows: QuerySet[Any]) -> int:
    return rows.order_by().values("pk")[: COUNTED_AT_MOST + 1].count()


def _address(place: str) -> str:
    model, _, query = place.partition("?")
    return f"{reverse(f'admin:{model}_changelist')}?{query}"
