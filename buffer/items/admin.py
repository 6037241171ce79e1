"""Admin of item counts and ledger audits."""

from django.contrib import admin

from buffer.items.models.audits import LedgerAudit
from buffer.items.models.items import Tally
from web.admin.read_only import RUN_FILTER, ReadOnlyAdmin


class RunlessAdmin(ReadOnlyAdmin):
    """Base of admin pages whose rows belong to no run."""

    search_fields: tuple[str, ...] = ()


@admin.register(Tally)
class TallyAdmin(ReadOnlyAdmin):
    """Item counts, one row per shard."""

    list_display = (
        "run_link",
        "kind",
        "fate",
        "reason",
        "epoch",
        "env_id",
        "size",
        "shard",
        "items",
        "sequences",
    )
    list_filter = ("kind", "fate", RUN_FILTER)
    list_select_related = ("run",)
    ordering = ("-id",)


@admin.register(LedgerAudit)
class LedgerAuditAdmin(ReadOnlyAdmin):
    """Last comparison of each run's counts with its rows."""

    list_display = ("run_link", "audited_at", "took_seconds")
    list_filter = (RUN_FILTER,)
    list_select_related = ("run",)
    ordering = ("-audited_at", "pk")
