"""Show everything that the platform remembers about runs; nothing is changed here but tokens."""

from typing import ClassVar

from django.contrib import admin, messages
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from runs import services
from runs.admin.read_only import RUN_FILTER, ReadOnlyAdmin, links_to_lists
from runs.models import (
    ApiCall,
    ApiToken,
    DeckPart,
    Environment,
    PolicyVersion,
    Run,
    RunEvent,
    Trainer,
)


@admin.register(Run)
class RunAdmin(ReadOnlyAdmin):
    """Runs, with links to what belongs to them."""

    belonging: ClassVar[list[type[Model]]] = []
    """Models of other apps with a `run`, which add themselves."""

    list_display = (
        "name",
        "kind",
        "status",
        "status_reason",
        "served_steps",
        "epoch",
        "policy_step",
        "created_at",
        "archived_at",
    )
    list_filter = ("status", "kind", "is_default", ("archived_at", admin.EmptyFieldListFilter))
    search_fields = ("name", "wandb_group", "wandb_project")
    search_help_text = "Name, group or project of a run"
    ordering = ("-created_at",)
    readonly_fields = ("belongings",)

    @admin.display(description="belongs to it")
    def belongings(self, run: Run) -> SafeString:
        """Return links to the run's page and to the lists of all that is its own."""
        page = format_html('<a class="text-link" href="/runs/{}">its page</a>', run.name)
        models: tuple[type[Model], ...] = (
            RunEvent,
            Trainer,
            Environment,
            PolicyVersion,
            ApiToken,
            *self.belonging,
        )
        return SafeString(page + " · " + links_to_lists(*models, run__id__exact=run.pk))


@admin.register(Trainer)
class TrainerAdmin(ReadOnlyAdmin):
    """Registered consumers."""

    list_display = ("uuid", "name", "run_link", "identity", "epoch", "last_seen_at")
    list_select_related = ("run",)
    list_filter = (RUN_FILTER,)
    search_fields = ("name", "identity", "run__name")
    ordering = ("-id",)


@admin.register(Environment)
class EnvironmentAdmin(ReadOnlyAdmin):
    """Registered producers."""

    list_display = (
        "wandb_name",
        "run_link",
        "env_id",
        "group_size",
        "weight",
        "connected",
        "last_seen_at",
    )
    list_select_related = ("run",)
    list_filter = ("connected", RUN_FILTER)
    search_fields = ("wandb_name", "spec", "run__name")
    ordering = ("-id",)


@admin.register(PolicyVersion)
class PolicyVersionAdmin(ReadOnlyAdmin):
    """Published weights; the bytes are fetched through the API."""

    list_display = ("__str__", "run_link", "epoch", "step", "size_bytes", "published_at")
    list_select_related = ("run",)
    list_filter = (RUN_FILTER, "published_at")
    search_fields = ("run__name", "sha256")
    ordering = ("-id",)
    exclude = ("file",)


@admin.register(RunEvent)
class RunEventAdmin(ReadOnlyAdmin):
    """What happened: who, what, when, why."""

    list_display = ("at", "run_link", "level", "kind", "message", "actor", "reason")
    list_select_related = ("run",)
    list_filter = ("level", RUN_FILTER)
    may_grow = True
    ordering = ("-id",)


@admin.register(ApiToken)
class ApiTokenAdmin(ReadOnlyAdmin):
    """Tokens without their secrets; the action revokes."""

    list_display = (
        "name",
        "prefix",
        "scopes",
        "run_link",
        "created_by",
        "last_used_at",
        "expires_at",
        "revoked_at",
    )
    list_select_related = ("run", "created_by")
    list_filter = (
        ("revoked_at", admin.EmptyFieldListFilter),
        RUN_FILTER,
    )
    search_fields = ("name", "prefix", "run__name")
    ordering = ("-id",)
    exclude = ("token_sha256",)
    actions = ("revoke",)

    @admin.action(description="Revoke the chosen tokens", permissions=["view"])
    def revoke(self, request: HttpRequest, chosen: QuerySet[ApiToken]) -> None:
        """Make the chosen tokens useless from the next request on."""
        for token in chosen:
            services.revoke_token(
                token_id=token.pk, actor=f"user:{request.user}", now=timezone.now()
            )
            self.audit(request, token, "revoked")
        messages.success(request, f"{len(chosen)} tokens are revoked.")


@admin.register(ApiCall)
class ApiCallAdmin(ReadOnlyAdmin):
    """What machines asked of the API lately; an id finds a call."""

    list_display = ("at", "client", "method", "path", "status", "duration_ms", "stands_for")
    list_filter = ("replayed",)
    ordering = ("-id",)
    search_fields: tuple[str, ...] = ("client", "path")
    search_help_text = "A client or a part of a path, among the newest calls"


@admin.register(DeckPart)
class DeckPartAdmin(ReadOnlyAdmin):
    """Processes of the deck and its cluster, with their last proof; forgotten after an hour."""

    list_display = ("kind", "name", "proven_at", "started_at", "version", "problem")
    list_filter = ("kind",)
    ordering = ("kind", "name")
    search_fields: tuple[str, ...] = ("name", "host")
    search_help_text = "A part of a name or a host"
