"""Admin of archives."""

from typing import Final

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.utils import timezone

from buffer.archive.models import ArchiveJob
from buffer.archive.rules import Window
from buffer.archive.services.archive_jobs import TooManyArchives, ask_for_archive
from runs.admin.decisions import Decision, reason_or_page
from runs.admin.read_only import RUN_FILTER, ReadOnlyAdmin
from runs.admin.rows import RunAdmin
from runs.models import Run

EXPORT: Final = Decision(
    title="Export these runs?",
    effect="A job writes an archive of all that is settled of each. Nothing of the runs changes.",
    verb="Export",
)


@admin.action(description="Export: write an archive of all that is settled", permissions=["act"])
def export(
    run_admin: RunAdmin, request: HttpRequest, chosen: QuerySet[Run]
) -> TemplateResponse | None:
    """Ask for an archive of each chosen run; a job writes it."""
    reason = reason_or_page(run_admin, request, chosen, EXPORT)
    if not isinstance(reason, str):
        return reason
    for run in chosen:
        try:
            ask_for_archive(
                run=run, window=Window(), asked_by=f"user:{request.user}", now=timezone.now()
            )
        except TooManyArchives as refusal:
            messages.warning(request, f"{run.name}: {refusal}")
            continue
        run_admin.audit(request, run, "asked for an archive" + (f"; {reason}" if reason else ""))
        messages.success(request, f"An archive of {run.name} is being written.")
    return None


RunAdmin.actions = (*(RunAdmin.actions or ()), export)


@admin.register(ArchiveJob)
class ArchiveJobAdmin(ReadOnlyAdmin):
    """Archives that were asked for, and how far they are."""

    list_display = ("id", "run_link", "verb", "state", "asked_by", "created_at", "finished_at")
    list_filter = ("verb", "state", RUN_FILTER)
    list_select_related = ("run",)
    ordering = ("-id",)
