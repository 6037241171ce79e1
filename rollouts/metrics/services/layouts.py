"""Keep ways to look at metrics, and forget them."""

from datetime import datetime
from typing import Any

import msgspec
from django.db import IntegrityError, transaction

from rollouts.metrics.models.layouts import LAYOUTS_AT_MOST, MetricLayout
from rollouts.metrics.queries.layouts import LayoutNotFound, layouts_for
from rollouts.metrics.schemas.layouts import SetMetricLayout
from runs.core.tags import InvalidTag, checked
from runs.models import Run
from runs.services import record_event
from runs.services.events import ACTOR_LENGTH


class InvalidLayout(ValueError):
    """It cannot be kept so; `field` says which part."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message


class LayoutExists(Exception):
    """One of this name is there already."""


class TooManyLayouts(Exception):
    """There are as many as anybody can choose from."""


class LayoutNotYours(Exception):
    """Somebody else made it, or it is to be shared, which operators decide."""


@transaction.atomic
def keep_layout(
    *, run: Run, wanted: SetMetricLayout, actor: str, may_operate: bool, now: datetime
) -> MetricLayout:
    """Keep a layout under a name: for oneself, for a run or for a tag.

    Raises:
        InvalidLayout: If its name is empty, or its tag is none.
        LayoutNotYours: If it is to be shared, and whoever asks is no operator.
        LayoutExists: If there is one of that name.
        TooManyLayouts: If there are as many as may be.
    """
    scope = _scope(run, wanted, actor=actor, may_operate=may_operate)
    if MetricLayout.objects.filter(**scope).count() >= LAYOUTS_AT_MOST:
        raise TooManyLayouts(f"{LAYOUTS_AT_MOST} layouts are kept at most; forget one first")
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
    """Set all of a layout.

    Raises:
        LayoutNotFound: If whoever asks sees none of this id in this run.
        LayoutNotYours: If somebody else made it, and whoever asks is no operator.
        LayoutExists: If there is another one of that name.
        InvalidLayout: If it cannot be kept so.
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
    """Forget a layout.

    Raises:
        LayoutNotFound: If whoever asks sees none of this id in this run.
        LayoutNotYours: If somebody else made it, and whoever asks is no operator.
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
        raise LayoutNotYours("operators share layouts; keep it for yourself")
    if wanted.share == "run":
        return {"run": run, "tag": ""}
    try:
        (tag,) = checked([wanted.tag])
    except (InvalidTag, ValueError) as error:
        raise InvalidLayout("tag", "must be a tag") from error
    return {"run": None, "tag": tag}


def _look(wanted: SetMetricLayout) -> dict[str, Any]:
    look: dict[str, Any] = msgspec.to_builtins(wanted.look)
    return look


def _changeable(run: Run, layout_id: int, *, actor: str, may_operate: bool) -> MetricLayout:
    seen = layouts_for(run, asker=actor).select_for_update(of=("self",))
    row = seen.filter(pk=layout_id).first()
    if row is None:
        raise LayoutNotFound(f"there is no layout {layout_id} here")
    if row.owner != actor[:ACTOR_LENGTH] and not may_operate:
        raise LayoutNotYours("somebody else made it: ask them, or an operator")
    return row


def _save(row: MetricLayout) -> None:
    try:
        with transaction.atomic():
            row.save()
    except IntegrityError as error:
        raise LayoutExists(f"there is a layout {row.name!r} already") from error


def _audit(
    row: MetricLayout, verb: str, *, run: Run, actor: str, reason: str, now: datetime
) -> None:
    shared = f" for the tag {row.tag}" if row.tag else "" if row.run_id else ", their own"
    record_event(
        run_id=run.pk,
        kind=f"layout_{verb}",
        message=f"{verb} the layout {row.name}{shared}",
        actor=actor,
        reason=reason,
        details={"layout": row.pk, "look": row.look},
        now=now,
    )
