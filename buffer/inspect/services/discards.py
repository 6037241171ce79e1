"""Permanent removal of groups from the queue by operators."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from django.db import transaction

from buffer.batches.services.transitions import drop_groups
from buffer.inspect.services.marks import groups_of_run
from buffer.items.models import TrajectoryGroup
from buffer.items.rules.states import DropReason, ItemState
from buffer.items.services import lock_run
from runs.events.services import record_event
from web.live.announcements import announce

_IN_THE_QUEUE: Final = (ItemState.WAITING, ItemState.QUEUED)
_REFUSALS: Final = {
    ItemState.LEASED: "its batch is leased to a trainer",
    ItemState.QUARANTINED: "its batch is quarantined: release or discard the batch",
    ItemState.SERVED: "it has already been trained on",
}


@transaction.atomic
def discard_groups(
    *, run_id: int, group_ids: Sequence[int], actor: str, reason: str, now: datetime
) -> dict[int, str]:
    """Drop waiting and queued groups permanently, with the reason `discarded`.

    Groups that are already discarded are skipped, so the call is idempotent.

    Returns:
        The reasons why groups were not discarded, by group id.

    Raises:
        InvalidMark: If no groups are named, or too many.
        GroupNotFound: If the run has no such group; nothing is changed.
    """
    found = groups_of_run(run_id, group_ids, field="groups")
    # The lock prevents forming of batches, so queued groups stay queued until they are dropped.
    lock_run(run_id)
    dropped = drop_groups(run_id, reason=DropReason.DISCARDED, states=_IN_THE_QUEUE, pk__in=found)
    if dropped:
        record_event(
            run_id=run_id,
            kind="groups_discarded",
            level="warning",
            message=f"{dropped} {'group was' if dropped == 1 else 'groups were'} discarded",
            actor=actor,
            reason=reason,
            details={"groups": found, "discarded": dropped},
            now=now,
        )
        announce(run_id, "queue", "ledger")
    rows = TrajectoryGroup.objects.filter(pk__in=found)
    return {
        group: problem
        for group, state, why in rows.values_list("pk", "state", "drop_reason")
        if (problem := _problem(state, why))
    }


def _problem(state: str, why: str) -> str:
    """Return the reason why a group is not discarded; empty if it is."""
    if state == ItemState.DROPPED:
        return "" if why == DropReason.DISCARDED else f"it was already dropped: {why}"
    return _REFUSALS.get(ItemState(state), f"it is {state}")
