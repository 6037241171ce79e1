"""Admin of users and groups, the only editable rows of the admin."""

from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group, User
from unfold.admin import ModelAdmin
from unfold.contrib.filters.admin import AutocompleteSelectFilter
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

from runs.admin.read_only import ReadOnlyAdmin
from runs.models import LoginCount

admin.site.unregister(User)
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


@admin.register(LoginCount)
class LoginCountAdmin(ReadOnlyAdmin):
    """Counters of password attempts, without names and addresses."""

    list_display = ("key", "attempts", "window_ends_at")
    list_filter = ("window_ends_at",)
    search_fields: tuple[str, ...] = ()
    run_lookup = ""
    ordering = ("-window_ends_at",)


@admin.register(LogEntry)
class LogEntryAdmin(ReadOnlyAdmin):
    """The log of this admin."""

    list_display = ("action_time", "user", "content_type", "object_repr", "change_message")
    list_select_related = ("user", "content_type")
    list_filter = (("user", AutocompleteSelectFilter), "content_type")
    search_fields = ("object_repr", "change_message")
    search_help_text = "The changed object, or a part of the message"
    ordering = ("-id",)
