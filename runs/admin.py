"""Show everything that the platform remembers about runs; nothing is changed here but tokens."""

from typing import Any

from django.contrib import admin, messages
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group, User
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.admin import ModelAdmin
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

from runs import services
from runs.models import ApiToken, Environment, PolicyVersion, Run, RunEvent, Trainer


def link_to(row: Model | None) -> SafeString | str:
    """Return a link to the admin page of `row`."""
    if row is None:
        return "-"
    options = row._meta
    address = reverse(f"admin:{options.app_label}_{options.model_name}_change", args=[row.pk])
    return format_html('<a href="{}">{}</a>', address, row)


class ReadOnlyAdmin(ModelAdmin):
    """Look, filter and search; never add, change or delete."""

    # COUNT(*) of a large table takes seconds.
    show_full_result_count = False
    list_per_page = 50
    actions_list: list[str] = []

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return False."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return False."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return False."""
        return False

    @admin.display(description="run", ordering="run")
    def run_link(self, row: Any) -> SafeString | str:
        """Return a link to the row's run."""
        return link_to(row.run)


@admin.register(Run)
class RunAdmin(ReadOnlyAdmin):
    """Runs, with links to what belongs to them."""

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
    ordering = ("-created_at",)
    readonly_fields = ("belongings",)

    @admin.display(description="belongs to it")
    def belongings(self, run: Run) -> SafeString:
        """Return links to the run's events, trainers, environments, versions and tokens."""
        links = SafeString(" · ").join(
            format_html(
                '<a href="{}?run__id__exact={}">{}</a>',
                reverse(f"admin:runs_{model._meta.model_name}_changelist"),
                run.pk,
                model._meta.verbose_name_plural,
            )
            for model in (RunEvent, Trainer, Environment, PolicyVersion, ApiToken)
        )
        return SafeString(links)


@admin.register(Trainer)
class TrainerAdmin(ReadOnlyAdmin):
    """Registered consumers."""

    list_display = ("uuid", "name", "run_link", "identity", "epoch", "last_seen_at")
    list_select_related = ("run",)
    list_filter = (("run", admin.RelatedOnlyFieldListFilter),)
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
    list_filter = ("connected", ("run", admin.RelatedOnlyFieldListFilter))
    search_fields = ("wandb_name", "spec", "run__name")
    ordering = ("-id",)


@admin.register(PolicyVersion)
class PolicyVersionAdmin(ReadOnlyAdmin):
    """Published weights; the bytes are fetched through the API."""

    list_display = ("__str__", "run_link", "epoch", "step", "size_bytes", "published_at")
    list_select_related = ("run",)
    list_filter = (("run", admin.RelatedOnlyFieldListFilter), "published_at")
    search_fields = ("run__name", "sha256")
    ordering = ("-id",)
    exclude = ("file",)


@admin.register(RunEvent)
class RunEventAdmin(ReadOnlyAdmin):
    """What happened: who, what, when, why."""

    list_display = ("at", "run_link", "level", "kind", "message", "actor", "reason")
    list_select_related = ("run",)
    list_filter = ("level", "kind", ("run", admin.RelatedOnlyFieldListFilter))
    search_fields = ("message", "actor", "run__name")
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
        ("run", admin.RelatedOnlyFieldListFilter),
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
        messages.success(request, f"{len(chosen)} tokens are revoked.")


admin.site.unregister(User)
admin.site.unregister(Group)


@admin.register(User)
class PersonAdmin(UserAdmin, ModelAdmin):  # type: ignore[type-arg]
    """People: the one thing that administrators do change here."""

    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm


@admin.register(Group)
class PersonGroupAdmin(GroupAdmin, ModelAdmin):
    """Groups; members of `operator` may operate runs."""
