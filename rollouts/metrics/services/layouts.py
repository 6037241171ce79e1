"""Creation and deletion of metric layouts."""

from datetime import datetime
from typing import Any

import msgspec
from django.db import IntegrityError, transaction

from rollouts.metrics.models.layouts import LAYOUTS_AT_MOST, MetricLayout
from rollouts.metrics.queries.layouts import LayoutNotFound, layouts_for
from rollouts.metrics.schemas.layouts import SetMetricLayout
from runs.events.services import ACTOR_LENGTH, record_event
from runs.lifecycle.models.runs import Run
from runs.lifecycle.rules.tags import InvalidTag, checked
from web.rules.errors import Conflict, Forbidden, InvalidField


class InvalidLayout(InvalidField):
    """A layout is invalid; `field` names the field."""


class LayoutExists(Conflict):
    """A layout of this name exists already."""

    code = "layout_exists"
    title = "Name taken"


class TooManyLayouts(Conflict):
    """The limit on layouts is reached."""

    code = "too_many_layouts"
    title = "No room for another layout"


class LayoutNotYours(Forbidden):
    """Someone else created the layout, or the caller must be an operator to share it."""


@transaction.atomic
def keep_layout(
    *, run: Run, wanted: SetMetricLayout, actor: str, may_operate: bool, now: datetime
) -> MetricLayout:
    """Save a layout under a name: for the user, for a run or for a tag.

    Raises:
        InvalidLayout: If its name is empty, or its tag is invalid.
        LayoutNotYours: If it is to be shared, and the caller is not an operator.
        LayoutExists: If the name is taken.
        TooManyLayouts: If the limit is reached.
    """
    scope = _scope(run, wanted, actor=actor, may_operate=may_operate)
    if MetricLayout.objects.filter(**scope).count() >= LAYOUTS_AT_MOST:
        raise TooManyLayouts(f"all {LAYOUTS_AT_MOST} places for layouts are used; delete one first")
    who = actor[:ACTOR_LENGTH]
    values = scope | {"name": wanted.name.strip(), "owner": who, "look": _look(wanted)}
    row = MetricLayout(**values, created_at=now, changed_at=now, changed_by=who)
    _save(row)
    _audit(row, "kept", run=run, actor=actor, reason=wanted.reason, now=now)
    return row


@transaction.atomic
def change_layout(
    *,
    run: Run,
    layout_id: int,
    wanted: SetMetricLayout,
    actor: str,
    may_operate: bool,
    now: datetime,
) -> MetricLayout:
    """Replace all fields of a layout.

    Raises:
        LayoutNotFound: If the caller sees no such layout in this run.
        LayoutNotYours: If someone else created it, and the caller is not an operator.
        LayoutExists: If the name is taken.
        InvalidLayout: If a field is invalid.
    """
    row = _changeable(run, layout_id, actor=actor, may_operate=may_operate)
    scope = _scope(run, wanted, actor=actor, may_operate=may_operate)
    for name, value in (scope | {"name": wanted.name.strip(), "look": _look(wanted)}).items():
        setattr(row, name, value)
    row.changed_at, row.changed_by = now, actor[:ACTOR_LENGTH]
    _save(row)
    _audit(row, "changed", run=run, actor=actor, reason=wanted.reason, now=now)
    return row


@transaction.atomic
def forget_layout(
    *, run: Run, layout_id: int, actor: str, may_operate: bool, reason: str = "", now: datetime
) -> None:
    """Delete a layout.

    Raises:
        LayoutNotFound: If the caller sees no such layout in this run.
        LayoutNotYours: If someone else created it, and the caller is not an operator.
    """
    row = _changeable(run, layout_id, actor=actor, may_operate=may_operate)
    _audit(row, "forgotten", run=run, actor=actor, reason=reason, now=now)
    row.delete()


def _scope(run: Run, wanted: SetMetricLayout, *, actor: str, may_operate: bool) -> dict[str, Any]:
    if not wanted.name.strip():
        raise InvalidLayout("name", "must not be empty")
    if wanted.share == "mine":
        return {"run": None, "tag": "", "owner": actor[:ACTOR_LENGTH]}
    if not may_operate:
        raise LayoutNotYours("only operators may share layouts")
    if wanted.share == "run":
        return {"run": run, "tag": ""}
    try:
        (tag,) = checked([wanted.tag])
    except (InvalidTag, ValueError) as error:
        raise InvalidLayout("tag", "not a valid tag") from error
    return {"run": None, "tag": tag}


def _look(wanted: SetMetricLayout) -> dict[str, Any]:
    look: dict[str, Any] = msgspec.to_builtins(wanted.look)
    return look


def _changeable(run: Run, layout_id: int, *, actor: str, may_operate: bool) -> MetricLayout:
    seen = layouts_for(run, asker=actor).select_for_update(of=("self",))
    row = seen.filter(pk=layout_id).first()
    if row is None:
        raise LayoutNotFound(f"the run has no layout {layout_id}")
    if row.owner != actor[:ACTOR_LENGTH] and not may_operate:
        raise LayoutNotYours("only its author or an operator may change a layout")
    return row


def _save(row: MetricLayout) -> None:
    try:
        with transaction.atomic():
            row.save()
    except IntegrityError as error:
        raise LayoutExists(f"a layout named {row.name!r} exists already") from error


def _audit(
    row: MetricLayout, verb: str, *, run: Run, actor: str, reason: str, now: datetime
) -> None:
    shared = f" for the tag {row.tag}" if row.tag else "" if row.run_id else " (private)"
    record_event(
        run_id=run.pk,
        kind=f"layout_{verb}",
        message=f"{verb} the layout {row.name}{shared}",
        actor=actor,
        reason=reason,
        details={"layout": row.pk, "look": row.look},
        now=now,
    )
