"""Let a person take groups out of the queue for good."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from django.db import transaction

from buffer.inspect.services.marks import groups_of_run
from buffer.items.models.items import TrajectoryGroup
from buffer.items.rules.states import DropReason, Fate
from buffer.items.services.locks import lock_run
from buffer.payloads.services.transitions import drop_groups
from runs import live
from runs.services import record_event

_IN_THE_QUEUE: Final = (Fate.WAITING, Fate.QUEUED)
_REFUSALS: Final = {
    Fate.LEASED: "a trainer holds the batch that it is in",
    Fate.QUARANTINED: "it is in a quarantined batch: decide about that one",
    Fate.SERVED: "it was trained on already",
}


@transaction.atomic
def discard_groups(
    *, run_id: int, group_ids: Sequence[int], actor: str, reason: str, now: datetime
) -> dict[int, str]:
    """Drop groups that wait or are queued, as `discarded`; no trainer gets them any more.

    A group that was discarded before is left alone, so that asking again changes nothing.

    Returns:
        Why a group was not discarded, for each of those that were not.

    Raises:
        InvalidMark: If no groups are named, or too many.
        GroupNotFound: If a group is none of the run's; then nothing has changed.
    """
    wanted = groups_of_run(run_id, group_ids, field="groups")
    # Nobody forms a batch meanwhile: what is queued here is queued until it is dropped.
    lock_run(run_id)
    dropped = drop_groups(run_id, reason=DropReason.DISCARDED, states=_IN_THE_QUEUE, pk__in=wanted)
    if dropped:
        record_event(
            run_id=run_id,
            kind="groups_discarded",
            level="warning",
            message=f"{dropped} {'group was' if dropped == 1 else 'groups were'} discarded",
            actor=actor,
            reason=reason,
            details={"groups": wanted, "discarded": dropped},
            now=now,
        )
        live.announce(run_id, "queue", "ledger")
    rows = TrajectoryGroup.objects.filter(pk__in=wanted)
    return {
        group: problem
        for group, state, why in rows.values_list("pk", "state", "drop_reason")
        if (problem := _problem(state, why))
    }


def _problem(state: str, why: str) -> str:
    """Return why a group is not discarded; empty for one that is."""
    if state == Fate.DROPPED:
        return "" if why == DropReason.DISCARDED else f"it was dropped before: {why}"
    return _REFUSALS.get(Fate(state), f"it is {state}")
