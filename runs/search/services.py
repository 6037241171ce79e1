"""Bulk actions on runs; a failure on one run does not affect the others."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from runs.lifecycle.models.runs import Run
from runs.lifecycle.queries.runs import RunNotFound
from runs.lifecycle.rules.lifecycle import MoveNotAllowed, RunVerb
from runs.lifecycle.rules.tags import InvalidTag
from runs.lifecycle.services import archiving, lifecycle

AT_ONCE: Final = 100
REFUSALS: Final = (MoveNotAllowed, RunNotFound, lifecycle.RunExists, InvalidTag)


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkAction:
    """A bulk action with its actor and reason; `tag` is for `tag` and `untag` only."""

    action: str
    actor: str
    reason: str = ""
    tag: str = ""


def act_on(runs: Sequence[Run], deed: BulkAction, *, now: datetime) -> list[str]:
    """Apply `deed` to each run in a separate transaction; return the problems, "" on success."""
    return [_act(run, deed, now) for run in runs]


def _act(run: Run, deed: BulkAction, now: datetime) -> str:
    try:
        if deed.action == "archive":
            archiving.archive(run_id=run.pk, actor=deed.actor, reason=deed.reason, now=now)
        elif deed.action == "unarchive":
            archiving.unarchive(run_id=run.pk, actor=deed.actor, reason=deed.reason, now=now)
        elif deed.action in ("tag", "untag"):
            _tag(run, deed, now)
        else:
            lifecycle.change_status(
                run_id=run.pk,
                verb=RunVerb(deed.action),
                actor=deed.actor,
                reason=deed.reason,
                now=now,
            )
    except REFUSALS as error:
        return str(error)
    return ""


def _tag(run: Run, deed: BulkAction, now: datetime) -> None:
    tags = {*run.tags, deed.tag} if deed.action == "tag" else {*run.tags} - {deed.tag.lower()}
    archiving.set_tags(run_id=run.pk, tags=tags, actor=deed.actor, reason=deed.reason, now=now)
