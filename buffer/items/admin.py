"""Admin of item counts and ledger audits."""

from buffer.items.models import LedgerAudit, Tally
from web.admin.read_only import RUN_FILTER, register_read_only

register_read_only(
    Tally,
    columns="run_link kind state reason epoch env_id size shard items sequences",
    filters=("kind", "state", RUN_FILTER),
)
register_read_only(
    LedgerAudit, columns="run_link audited_at took_seconds", ordering=("-audited_at", "pk")
)
