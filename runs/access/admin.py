"""Admin of users and groups, the only editable rows, and of tokens and logins."""

from typing import Final

from django.contrib import admin, messages
from django.contrib.admin.models import LogEntry
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group
from django.db.models import QuerySet
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.utils import timezone
from unfold.admin import ModelAdmin
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

from runs.access.models import ApiToken, LoginCount, User
from runs.access.services.tokens import revoke_token
from web.admin.decisions import Decision, reason_or_page
from web.admin.read_only import (
    RUN_FILTER,
    ReadOnlyAdmin,
    chosen_by_name,
    is_empty,
    register_read_only,
)

REVOKE: Final = Decision(
    title="Revoke these tokens?",
    effect="Requests with these tokens are refused immediately. A revoked token cannot be "
    "restored; create a new one for clients that still need access.",
    verb="Revoke",
    destroys=True,
)


admin.site.unregister(Group)


@admin.register(User)
class PersonAdmin(UserAdmin, ModelAdmin):  # type: ignore[type-arg]
    """Users: editable, unlike all other rows."""

    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm
    readonly_fields = ("last_login", "date_joined")  # history is read-only


@admin.register(Group)
class PersonGroupAdmin(GroupAdmin, ModelAdmin):
    """Groups; members of `operator` may operate runs."""


register_read_only(
    LoginCount,
    columns="key attempts window_ends_at",
    filters=("window_ends_at",),
    ordering=("-window_ends_at",),
    run_lookup="",
)
register_read_only(
    LogEntry,
    columns="action_time user content_type object_repr change_message",
    filters=(chosen_by_name("user"), "content_type"),
    search_fields=("object_repr", "change_message"),
    search_help="The changed object, or a part of the message",
    joins=("user", "content_type"),
    run_lookup="",
)


@admin.register(ApiToken)
class ApiTokenAdmin(ReadOnlyAdmin):
    """Tokens without their secrets, with an action that revokes them."""

    list_display = (
        *("name", "prefix", "scopes", "run_link"),
        *("created_by", "last_used_at", "expires_at", "revoked_at"),
    )
    list_select_related = ("run", "created_by")
    list_filter = (is_empty("revoked_at"), RUN_FILTER)
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
        actor = f"user:{request.user}"
        for token in chosen:
            revoke_token(token_id=token.pk, actor=actor, reason=reason, now=timezone.now())
            self.audit(request, token, f"revoked; {reason}")
        messages.success(request, f"{len(chosen)} tokens revoked.")
        return None
