"""Admin of runs and their rows; all read-only except for the revocation of tokens."""

from typing import ClassVar, Final

from django.contrib import admin, messages
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.safestring import SafeString

from runs import services
from runs.admin.decisions import Decision, reason_or_page
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
    WeightsOrder,
)

REVOKE: Final = Decision(
    title="Revoke these tokens?",
    effect="Requests with these tokens are refused immediately. A revoked token cannot be "
    "restored; create a new one for clients that still need access.",
    verb="Revoke",
    destroys=True,
)


@admin.register(Run)
class RunAdmin(ReadOnlyAdmin):
    """Runs, with links to their rows."""

    belonging: ClassVar[list[type[Model]]] = []
    """Models of other apps with a `run`, which register themselves."""

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
    run_lookup = ""
    dashboard = "/runs/{run}"

    @admin.display(description="related rows")
    def belongings(self, run: Run) -> SafeString:
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
    readonly_fields = ("belongings",)

    @admin.display(description="related rows")
    def belongings(self, trainer: Trainer) -> SafeString:
        """Return links to the lists of the trainer's rows."""
        return links_to_lists(*self.belonging, trainer__id__exact=trainer.pk)


@admin.register(Environment)
class EnvironmentAdmin(ReadOnlyAdmin):
    """Registered producers, with links to their data."""

    belonging: ClassVar[list[type[Model]]] = []
    """Models of other apps with a `run` and an `env_id`, which register themselves."""

    list_display = (
        "wandb_name",
        "run_link",
        "env_id",
        "group_size",
        "weight",
        "connected",
        "muted",
        "last_seen_at",
    )
    list_select_related = ("run",)
    list_filter = ("connected", "muted", RUN_FILTER)
    dashboard = "/runs/{run}/environments"
    search_fields = ("wandb_name", "spec", "run__name")
    ordering = ("-id",)
    readonly_fields = ("belongings",)

    @admin.display(description="related rows")
    def belongings(self, row: Environment) -> SafeString:
        """Return links to the lists of the environment's rows."""
        return links_to_lists(*self.belonging, run__id__exact=row.run_id, env_id=row.env_id)


@admin.register(PolicyVersion)
class PolicyVersionAdmin(ReadOnlyAdmin):
    """Published weights; the API serves their files."""

    list_display = ("__str__", "run_link", "epoch", "step", "size_bytes", "published_at")
    list_select_related = ("run",)
    list_filter = (RUN_FILTER, "published_at")
    dashboard = "/runs/{run}/weights"
    search_fields = ("run__name", "sha256")
    ordering = ("-id",)
    exclude = ("file",)


@admin.register(WeightsOrder)
class WeightsOrderAdmin(ReadOnlyAdmin):
    """Weights commands: pins, unpins and reloads."""

    list_display = ("at", "run_link", "number", "kind", "pinned_step", "actor", "reason")
    list_select_related = ("run",)
    list_filter = ("kind", RUN_FILTER)
    dashboard = "/runs/{run}/weights"
    ordering = ("-id",)


@admin.register(RunEvent)
class RunEventAdmin(ReadOnlyAdmin):
    """Events: actor, action, time and reason."""

    list_display = ("at", "run_link", "level", "kind", "message", "actor", "reason")
    list_select_related = ("run",)
    list_filter = ("level", RUN_FILTER)
    may_grow = True
    dashboard = "/audit?run={run}"
    ordering = ("-id",)


@admin.register(ApiToken)
class ApiTokenAdmin(ReadOnlyAdmin):
    """Tokens without their secrets, with an action that revokes them."""

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
    dashboard = "/tokens"
    actions = ("revoke",)

    @admin.action(description="Revoke selected tokens", permissions=["act"])
    def revoke(self, request: HttpRequest, chosen: QuerySet[ApiToken]) -> TemplateResponse | None:
        """Revoke the selected tokens."""
        reason = reason_or_page(self, request, chosen, REVOKE)
        if not isinstance(reason, str):
            return reason
        told = {"actor": f"user:{request.user}", "reason": reason}
        for token in chosen:
            services.revoke_token(token_id=token.pk, now=timezone.now(), **told)
            self.audit(request, token, f"revoked; {reason}")
        messages.success(request, f"{len(chosen)} tokens revoked.")
        return None


@admin.register(ApiCall)
class ApiCallAdmin(ReadOnlyAdmin):
    """Recent API calls of machines; search by id finds one call."""

    list_display = ("at", "client", "method", "path", "status", "duration_ms", "stands_for")
    list_filter = ("replayed",)
    run_lookup = ""
    dashboard = "/tokens"
    may_grow = True
    ordering = ("-id",)
    search_fields: tuple[str, ...] = ("client", "path")
    search_help_text = "A client or a part of a path, among the newest calls"


@admin.register(DeckPart)
class DeckPartAdmin(ReadOnlyAdmin):
    """Processes of the deployment and its cluster, with their last heartbeat, for an hour."""

    list_display = ("kind", "name", "proven_at", "started_at", "version", "problem")
    list_filter = ("kind",)
    run_lookup = ""
    dashboard = "/cluster"
    ordering = ("kind", "name")
    search_fields: tuple[str, ...] = ("name", "host")
    search_help_text = "A part of a name or a host"
