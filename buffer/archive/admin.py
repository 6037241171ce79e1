"""Admin of archives."""

from typing import Final

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.utils import timezone

from buffer.archive.models import ArchiveJob
from buffer.archive.rules import Window
from buffer.archive.services.archive_jobs import TooManyArchives, request_archive
from runs.lifecycle.admin import RunAdmin
from runs.lifecycle.models import Run
from web.admin.decisions import Decision, reason_or_page
from web.admin.read_only import RUN_FILTER, register_read_only

EXPORT: Final = Decision(
    title="Export these runs?",
    effect="A job archives the served and dropped items of each run. The runs do not change.",
    verb="Export",
)


@admin.action(description="Export served and dropped items to an archive", permissions=["act"])
def export(
    run_admin: RunAdmin, request: HttpRequest, chosen: QuerySet[Run]
) -> TemplateResponse | None:
    """Request an archive of each selected run; a job writes it."""
    reason = reason_or_page(run_admin, request, chosen, EXPORT)
    if not isinstance(reason, str):
        return reason
    for run in chosen:
        try:
            request_archive(
                run=run, window=Window(), asked_by=f"user:{request.user}", now=timezone.now()
            )
        except TooManyArchives as refusal:
            messages.warning(request, f"{run.name}: {refusal}")
            continue
        run_admin.audit(request, run, "requested an archive" + (f"; {reason}" if reason else ""))
        messages.success(request, f"An archive of {run.name} is being written.")
    return None


RunAdmin.actions = (*(RunAdmin.actions or ()), export)

register_read_only(
    ArchiveJob,
    columns="id run_link verb state asked_by created_at finished_at",
    filters=("verb", "state", RUN_FILTER),
)
