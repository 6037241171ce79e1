"""Admin pages of runs, their trainers, environments and notes."""

from typing import Any, ClassVar, Final

from django.contrib import admin, messages
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.safestring import SafeString

from runs.access.models import ApiToken
from runs.events.models import RunEvent
from runs.lifecycle.models import (
    Environment,
    EnvironmentNumbers,
    PolicyVersion,
    Run,
    RunDeletion,
    RunNote,
    Trainer,
)
from runs.lifecycle.services.deletion import RunActive, delete_run
from web.admin.decisions import Decision, reason_or_page
from web.admin.read_only import (
    RUN_FILTER,
    ReadOnlyAdmin,
    as_written,
    is_empty,
    links_to_lists,
    register_read_only,
)

# Admin of runs and their rows; all read-only except for deletions and the revocation of tokens.

DELETE: Final = Decision(
    title="Delete these runs?",
    effect="Each run that is not active disappears at once, and its name is free. All its rows and"
    " bytes are removed in the background. This cannot be undone.",
    verb="Delete",
    destroys=True,
)


@admin.register(Run)
class RunAdmin(ReadOnlyAdmin):
    """Runs, with links to their rows."""

    belonging: ClassVar[list[type[Model]]] = []
    """Models of other apps with a `run`, which register themselves."""

    list_display = (
        *("name", "kind", "status", "status_reason", "served_steps"),
        *("epoch", "policy_step", "created_at", "archived_at"),
    )
    list_filter = ("status", "kind", "is_default", is_empty("archived_at"))
    search_fields = ("name", "wandb_group", "wandb_project")
    search_help_text = "Name, group or project of a run"
    ordering = ("-created_at",)
    readonly_fields = ("related_links",)
    run_lookup = ""
    dashboard = "/runs/{run}"
    actions: ClassVar[tuple[Any, ...]] = ("delete_runs",)

    @admin.action(description="Delete", permissions=["act"])
    def delete_runs(self, request: HttpRequest, chosen: QuerySet[Run]) -> TemplateResponse | None:
        """Delete the selected runs; a job removes their rows and bytes."""
        reason = reason_or_page(self, request, chosen, DELETE)
        if not isinstance(reason, str):
            return reason
        actor = f"user:{request.user}"
        for run in chosen:
            try:
                delete_run(address=run.address, actor=actor, reason=reason, now=timezone.now())
            except RunActive as refusal:
                messages.warning(request, f"{run.name}: {refusal}")
                continue
            self.audit(request, run, f"deleted; {reason}")
            messages.success(request, f"{run.name} is deleted.")
        return None

    @admin.display(description="related rows")
    def related_links(self, run: Run) -> SafeString:
        """Return links to the lists of the run's rows."""
        models: tuple[type[Model], ...] = (
            RunEvent,
            Trainer,
            Environment,
            PolicyVersion,
            ApiToken,
            *self.belonging,
        )
        return links_to_lists(*models, run__id__exact=run.pk)


@admin.register(Trainer)
class TrainerAdmin(ReadOnlyAdmin):
    """Registered consumers, with links to their batches."""

    belonging: ClassVar[list[type[Model]]] = []
    """Models of other apps with a `trainer`, which register themselves."""

    list_display = ("uuid", "name", "run_link", "identity", "epoch", "last_seen_at")
    list_select_related = ("run",)
    list_filter = (RUN_FILTER,)
    search_fields = ("name", "identity", "run__name")
    ordering = ("-id",)
    readonly_fields = ("related_links",)

    @admin.display(description="related rows")
    def related_links(self, trainer: Trainer) -> SafeString:
        """Return links to the lists of the trainer's rows."""
        return links_to_lists(*self.belonging, trainer__id__exact=trainer.pk)


@admin.register(Environment)
class EnvironmentAdmin(ReadOnlyAdmin):
    """Registered producers, with links to their data."""

    belonging: ClassVar[list[type[Model]]] = []
    """Models of other apps with a `run` and an `env_id`, which register themselves."""

    list_display = (
        *("wandb_name", "run_link", "env_id", "group_size"),
        *("weight", "connected", "muted", "last_seen_at"),
    )
    list_select_related = ("run",)
    list_filter = ("connected", "muted", RUN_FILTER)
    dashboard = "/runs/{run}/environments"
    search_fields = ("wandb_name", "spec", "run__name")
    ordering = ("-id",)
    readonly_fields = ("related_links",)

    @admin.display(description="related rows")
    def related_links(self, row: Environment) -> SafeString:
        """Return links to the lists of the environment's rows."""
        return links_to_lists(*self.belonging, run__id__exact=row.run_id, env_id=row.env_id)


register_read_only(
    EnvironmentNumbers,
    columns="environment run_link keys pending ignored",
    filters=(RUN_FILTER,),
    dashboard="/runs/{run}/environments",
)
register_read_only(
    RunDeletion,
    columns="name requested_at requested_by reason items removed_items removed_rows removed_bytes"
    " finished_at problem",
    filters=(is_empty("finished_at"),),
    search_fields=("name",),
    search_help="A part of the name of the deleted run",
    run_lookup="",
)


# Admin of run notes.


@admin.register(RunNote)
class RunNoteAdmin(ReadOnlyAdmin):
    """Revisions of run notes."""

    list_display = ("__str__", "run_link", "revision", "author", "at")
    list_filter = (RUN_FILTER,)
    list_select_related = ("run",)
    ordering = ("-id",)
    exclude = ("text",)
    readonly_fields = ("written",)
    dashboard = "/runs/{run}"

    @admin.display(description="text")
    def written(self, note: RunNote) -> SafeString:
        """Return the text with visible control characters."""
        return as_written(note.text)


RunAdmin.belonging.append(RunNote)
