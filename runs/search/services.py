"""Bulk actions on runs; a failure on one run does not affect the others."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final

from runs.lifecycle.models import Run
from runs.lifecycle.queries import RunNotFound
from runs.lifecycle.rules import MoveNotAllowed, RunVerb
from runs.lifecycle.services import lifecycle
from runs.lifecycle.services.deletion import RunActive, delete_run
from web.rules.texts import InvalidTag

AT_ONCE: Final = 100
REFUSALS: Final = (MoveNotAllowed, RunActive, RunNotFound, lifecycle.RunExists, InvalidTag)
_CHANGES: Final[dict[str, Callable[..., object]]] = {
    "archive": lifecycle.archive,
    "delete": delete_run,
    "unarchive": lifecycle.unarchive,
    "tag": lifecycle.set_tags,
    "untag": lifecycle.set_tags,
    **{str(verb): partial(lifecycle.change_status, verb=verb) for verb in RunVerb},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkAction:
    """A bulk action with its actor and reason; `tag` is for `tag` and `untag` only."""

    action: str
    actor: str
    reason: str = ""
    tag: str = ""


def act_on(runs: Sequence[Run], action: BulkAction, *, now: datetime) -> list[str]:
    """Apply `action` to each run in a separate transaction; return the problems, "" on success."""
    problems = []
    for run in runs:
        arguments: dict[str, object] = {"run_id": run.pk}
        if action.action == "delete":
            arguments = {"address": run.uid}
        elif action.action == "tag":
            arguments["tags"] = {*run.tags, action.tag}
        elif action.action == "untag":
            arguments["tags"] = {*run.tags} - {action.tag.lower()}
        try:
            _CHANGES[action.action](**arguments, actor=action.actor, reason=action.reason, now=now)
            problems.append("")
        except REFUSALS as error:
            problems.append(str(error))
    return problems
