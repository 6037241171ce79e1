"""Bulk actions on runs; a failure on one run does not affect the others."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from runs.lifecycle.models import Run
from runs.lifecycle.queries import RunNotFound
from runs.lifecycle.rules import MoveNotAllowed, RunVerb
from runs.lifecycle.services import lifecycle
from web.rules.texts import InvalidTag

AT_ONCE: Final = 100
REFUSALS: Final = (MoveNotAllowed, RunNotFound, lifecycle.RunExists, InvalidTag)


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkAction:
    """A bulk action with its actor and reason; `tag` is for `tag` and `untag` only."""

    action: str
    actor: str
    reason: str = ""
    tag: str = ""


def act_on(runs: Sequence[Run], action: BulkAction, *, now: datetime) -> list[str]:
    """Apply `action` to each run in a separate transaction; return the problems, "" on success."""
    return [_act(run, action, now) for run in runs]


def _act(run: Run, action: BulkAction, now: datetime) -> str:
    try:
        if action.action == "archive":
            lifecycle.archive(run_id=run.pk, actor=action.actor, reason=action.reason, now=now)
        elif action.action == "unarchive":
            lifecycle.unarchive(run_id=run.pk, actor=action.actor, reason=action.reason, now=now)
        elif action.action in ("tag", "untag"):
            _tag(run, action, now)
        else:
            lifecycle.change_status(
                run_id=run.pk,
                verb=RunVerb(action.action),
                actor=action.actor,
                reason=action.reason,
                now=now,
            )
    except REFUSALS as error:
        return str(error)
    return ""


def _tag(run: Run, action: BulkAction, now: datetime) -> None:
    tags = {*run.tags, action.tag} if action.action == "tag" else {*run.tags} - {action.tag.lower()}
    lifecycle.set_tags(run_id=run.pk, tags=tags, actor=action.actor, reason=action.reason, now=now)
