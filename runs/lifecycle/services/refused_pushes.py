"""Count the refused pushes of each environment, by reason."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

import msgspec
from django.db import transaction

from runs.access.rules.call_digest import Call, RefusedPush
from runs.lifecycle.models.runs import Environment
from runs.lifecycle.schemas.runs import RefusedPushes
from web.rules.storable_text import storable

# Per environment; further reasons are counted together.
REASONS_KEPT: Final = 20
FURTHER: Final = "other"
LONGEST_SAID: Final = 300


@transaction.atomic
def count_refused_pushes(calls: Iterable[Call]) -> None:
    """Add refusals to the counts of their environments; unknown environments are ignored."""
    refused = [(call, call.refused_push) for call in calls if call.refused_push is not None]
    if not refused:
        return
    runs = {push.run_id for _, push in refused}
    named = {env_id for _, push in refused for env_id in push.env_ids}
    # In a fixed order, to avoid deadlocks.
    rows = Environment.objects.filter(run_id__in=runs, env_id__in=named).order_by("pk")
    for row in rows.select_for_update():
        mine = [
            (call, push)
            for call, push in refused
            if push.run_id == row.run_id and row.env_id in push.env_ids
        ]
        if mine:
            counts = msgspec.convert(row.refused or {}, dict[str, RefusedPushes])
            for call, push in mine:
                _add(counts, call, push)
            row.refused = msgspec.to_builtins(counts)
            row.save(update_fields=["refused"])


def _add(counts: dict[str, RefusedPushes], call: Call, push: RefusedPush) -> None:
    reason = push.reason
    if reason not in counts and len(counts) >= REASONS_KEPT:
        reason = FURTHER
    before = counts.get(reason)
    counts[reason] = RefusedPushes(
        pushes=call.stands_for + (before.pushes if before else 0),
        newest_at=datetime.fromtimestamp(call.at, UTC),
        said=storable(push.said[:LONGEST_SAID]),
    )
