"""Name of the deployment and navigation of the admin pages."""

from typing import Any, Final

from django.apps import apps
from django.conf import settings
from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse

# Title, then label, icon and model of each entry; or an address instead of a model.
_GROUPS: Final = (
    (
        "Dashboard",
        (("Runs", "rocket_launch", "/runs"), ("API", "api", "/docs")),
    ),
    (
        "Runs",
        (
            ("Runs", "list", "runs.run"),
            ("Alerts", "notifications", "runs.alert"),
            ("Alert rules", "rule", "runs.alertrule"),
            ("Silences", "notifications_off", "runs.alertsilence"),
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
            ("People", "person", "auth.user"),
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
    groups = [
        {
            "title": title,
            "separator": bool(place),
            "items": [
                {"title": label, "icon": icon, "link": _address(target)}
                for label, icon, target in entries
                if _may_view(request, target)
            ],
        }
        for place, (title, entries) in enumerate(_GROUPS)
    ]
    return [group for group in groups if group["items"]]


def _may_view(request: HttpRequest, target: str) -> bool:
    if target.startswith("/"):
        return True
    return admin.site.get_model_admin(apps.get_model(target)).has_view_permission(request)


def _address(target: str) -> str:
    if target.startswith("/"):
        return target
    return reverse(f"admin:{target.replace('.', '_')}_changelist")
