"""Named sets of a run's groups."""

from collections.abc import Sequence
from datetime import datetime

from django.db import transaction

from buffer.inspect.models.marks import GroupSet, SetMember
from buffer.inspect.queries.marks import SetNotFound
from buffer.inspect.rules import marks as rules
from buffer.inspect.services.marks import groups_of_run, lock_marks
from runs.events.services import record_event
from web.rules.errors import Conflict


class SetFull(Conflict):
    """The set is at its limit of groups, or the run at its limit of sets."""

    code = "set_full"
    title = "The set is full"


@transaction.atomic
def change_set(
    *,
    run_id: int,
    name: str,
    add: Sequence[int] = (),
    remove: Sequence[int] = (),
    actor: str,
    reason: str = "",
    now: datetime,
) -> GroupSet:
    """Add groups to a set and remove others; a new set is created.

    A set remains when its last group is removed; :func:`drop_set` deletes it.

    Raises:
        InvalidMark: If the name is invalid, or there are too many groups.
        GroupNotFound: If the run has no such group; nothing is changed.
        SetFull: If the set would have too many groups, or the run too many sets.
    """
    name = rules.set_name(name)
    adding = groups_of_run(run_id, add, field="add") if add else []
    leaving = groups_of_run(run_id, remove, field="remove") if remove else []
    lock_marks(run_id)
    found = GroupSet.objects.filter(run_id=run_id, name=name).first()
    is_new = found is None
    group_set = found or _created(run_id, name, actor=actor, now=now)
    members = SetMember.objects.filter(set=group_set)
    taken_out, _ = members.filter(group_id__in=leaving).delete()
    there = set(members.filter(group_id__in=adding).values_list("group_id", flat=True))
    fresh = [group for group in adding if group not in there]
    group_set.groups += len(fresh) - taken_out
    if fresh and group_set.groups > rules.MOST_MEMBERS:
        raise SetFull(f"{name} would have more than {rules.MOST_MEMBERS} groups")
    SetMember.objects.bulk_create(
        SetMember(set=group_set, group_id=group, added_by=actor[:200], added_at=now)
        for group in fresh
    )
    if is_new or fresh or taken_out:
        group_set.save(update_fields=["groups"])
        record_event(
            run_id=run_id,
            kind="set_changed",
            message=f"{name}: {len(fresh)} added, {taken_out} removed{', new' if is_new else ''}",
            actor=actor,
            reason=reason,
            details={"set": name, "added": fresh, "removed": leaving if taken_out else []},
            now=now,
        )
    return group_set


def _created(run_id: int, name: str, *, actor: str, now: datetime) -> GroupSet:
    if GroupSet.objects.filter(run_id=run_id).count() >= rules.MOST_SETS:
        raise SetFull(f"a run has at most {rules.MOST_SETS} sets")
    return GroupSet.objects.create(run_id=run_id, name=name, created_by=actor[:200], created_at=now)


@transaction.atomic
def drop_set(*, run_id: int, name: str, actor: str, reason: str = "", now: datetime) -> None:
    """Delete a set; its groups are unchanged, and an event records their ids.

    Raises:
        SetNotFound: If the run has no such set.
    """
    lock_marks(run_id)
    found = GroupSet.objects.filter(run_id=run_id, name=name).first()
    if found is None:
        raise SetNotFound(f"the run has no set {name[:60]!r}")
    groups = list(found.members.order_by("group_id").values_list("group_id", flat=True))
    found.delete()
    record_event(
        run_id=run_id,
        kind="set_dropped",
        message=f"{name} with {len(groups)} groups",
        actor=actor,
        reason=reason,
        details={"set": name, "groups": groups},
        now=now,
    )
