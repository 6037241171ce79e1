"""The admin pages: deployment, navigation, start page, sign-in and password change."""

from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from django.apps import apps
from django.conf import settings
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from unfold.forms import AuthenticationForm

from buffer.archive.models import ArchiveJob, ArchiveState
from buffer.items.models import Batch
from buffer.items.rules.states import BatchState
from runs.access.services.passwords import (
    TooManyLogins,
    address_of,
    reserve_attempt,
    return_attempt,
)
from runs.access.services.sessions import known_browser, remember_browser
from runs.alerts.models import Alert, AlertDelivery
from runs.alerts.rules import AlertState
from runs.lifecycle.models import Run
from runs.lifecycle.rules import RunStatus

# Name of the deployment and navigation of the admin pages.

# Title, then label, icon and model of each entry; or an address instead of a model.
_GROUPS: Final = (
    ("Dashboard", (("Runs", "rocket_launch", "/runs"), ("API", "api", "/docs"))),
    (
        "Runs",
        (
            ("Runs", "list", "runs.run"),
            ("Alerts", "notifications", "runs.alert"),
            ("Alert rules", "rule", "runs.alertrule"),
            ("Snoozed", "notifications_off", "runs.alertsnooze"),
            ("Events", "history", "runs.runevent"),
            ("Environments", "public", "runs.environment"),
            ("Trainers", "model_training", "runs.trainer"),
            ("Weights", "weight", "runs.policyversion"),
            ("Notes", "edit_note", "runs.runnote"),
            ("Saved objects", "bookmark", "runs.savedobject"),
            ("Tokens", "key", "runs.apitoken"),
            ("Processes", "dns", "runs.processheartbeat"),
            ("Exits", "restart_alt", "runs.partexit"),
        ),
    ),
    (
        "Data",
        (
            ("Batches", "inventory_2", "buffer.batch"),
            ("Groups", "forum", "buffer.trajectorygroup"),
            ("Fragments", "view_timeline", "buffer.fragmentchunk"),
            ("Segments", "storage", "buffer.segment"),
            ("Archives", "archive", "buffer.archivejob"),
        ),
    ),
    (
        "Fleets",
        (
            ("Fleets", "hub", "rollouts.fleet"),
            ("Workers", "memory", "rollouts.fleetworker"),
            ("Attempts", "restart_alt", "rollouts.workerattempt"),
            ("Lessons", "school", "rollouts.lesson"),
            ("Evaluations", "fact_check", "rollouts.evaluation"),
            ("Recordings", "movie", "rollouts.recording"),
        ),
    ),
    (
        "People",
        (
            ("People", "person", "runs.user"),
            ("Groups of people", "group", "auth.group"),
            ("Admin log", "receipt_long", "admin.logentry"),
        ),
    ),
)


def deployment(_request: HttpRequest) -> list[str] | None:
    """Return the deployment's name and colour; None if it has no name."""
    name = settings.ROLLDECK_DEPLOYMENT
    return [name, settings.ROLLDECK_DEPLOYMENT_COLOUR] if name else None


def navigation(request: HttpRequest) -> list[dict[str, Any]]:
    """Return the sidebar entries that the user may view."""
    groups: list[dict[str, Any]] = []
    for place, (title, entries) in enumerate(_GROUPS):
        items = []
        for label, icon, target in entries:
            link = target
            if not target.startswith("/"):
                model_admin = admin.site.get_model_admin(apps.get_model(target))
                if not model_admin.has_view_permission(request):
                    continue
                link = reverse(f"admin:{target.replace('.', '_')}_changelist")
            items.append({"title": label, "icon": icon, "link": link})
        if items:
            groups.append({"title": title, "separator": bool(place), "items": items})
    return groups


# Counts of open work on the start page of the admin, with links to the rows.

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


# Label, model, column and value of the rows, and whether one is too many. Each count uses an index
# of open rows or a small table.
_ASKED: Final[tuple[tuple[str, type[Model], str, str, bool], ...]] = (
    ("alerts open", Alert, "state", AlertState.OPEN, True),
    ("runs under way", Run, "status", RunStatus.RUNNING, False),
    ("runs failed", Run, "status", RunStatus.FAILED, True),
    ("batches left by their trainer", Batch, "state", BatchState.RETURNED, False),
    ("batches in quarantine", Batch, "state", BatchState.QUARANTINED, True),
    ("archives failed", ArchiveJob, "state", ArchiveState.FAILED, True),
    ("webhook calls given up", AlertDelivery, "state", "given up", True),
)


def attention(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """Return the context of the start page with the figures that the user may see."""
    return context | {"attention": figures(request)}


def figures(request: HttpRequest) -> list[Figure]:
    """Return the figures of the models that the user may view."""
    shown = []
    for label, model, column, value, is_bad in _ASKED:
        model_admin = admin.site.get_model_admin(model)
        if model_admin.has_view_permission(request):
            rows: QuerySet[Any] = QuerySet(model).filter(**{column: value}).values("pk")
            page = f"admin:{model_admin.opts.label_lower.replace('.', '_')}_changelist"
            address = f"{reverse(page)}?{urlencode({f'{column}__exact': str(value)})}"
            count = rows[: COUNTED_AT_MOST + 1].count()
            shown.append(Figure(label=label, count=count, address=address, is_bad=is_bad))
    return shown


# Sign-in and password change of the admin, with the limits that the API has.


class LoginForm(AuthenticationForm):  # type: ignore[misc]  # unfold has no types
    """The admin's sign-in form, which reports when the limit of attempts is reached."""

    refusal: TooManyLogins | None = None

    def clean(self) -> dict[str, Any]:
        """Check name and password."""
        try:
            cleaned: dict[str, Any] = super().clean()
        except TooManyLogins as error:
            self.refusal = error
            raise ValidationError(str(error), code="too_many_requests") from error
        return cleaned


def sign_in(request: HttpRequest) -> HttpResponseBase:
    """Serve `/admin/login/`."""
    response: HttpResponseBase = admin.site.login(request)
    if isinstance(response, TemplateResponse):
        form = (response.context_data or {}).get("form")
        if isinstance(form, LoginForm) and form.refusal is not None:
            return _refused(response, form.refusal)
    elif request.method == "POST" and request.user.is_authenticated:
        remember_browser(response, request.user)
    return response


def change_password(request: HttpRequest) -> HttpResponseBase:
    """Serve `/admin/password_change/`; a check of the old password counts as an attempt."""
    if request.method != "POST" or not request.user.is_authenticated:
        return _password_page(request)
    name = request.user.get_username()
    try:
        attempt = reserve_attempt(
            name=name,
            address=address_of(request),
            browser=known_browser(request, name),
            now=timezone.now(),  # noqa: TID251 an entry point
        )
    except TooManyLogins as error:
        page = render(request, "config/too_many_logins.html", {"detail": str(error)})
        return _refused(page, error)
    response = _password_page(request)
    form = (getattr(response, "context_data", None) or {}).get("form")
    if form is None or "old_password" not in form.errors:
        return_attempt(attempt)
    return response


def _password_page(request: HttpRequest) -> HttpResponseBase:
    page: HttpResponseBase = admin.site.admin_view(admin.site.password_change)(request)
    return page


def _refused(response: HttpResponse, refusal: TooManyLogins) -> HttpResponse:
    response.status_code = 429
    response["Retry-After"] = str(refusal.retry_after_seconds)
    return response
