"""Change the settings and notes of runs and their environments."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from django.db import transaction
from django.db.models import Model

from runs.config.rules import sections
from runs.events.services import ACTOR_LENGTH, record_event
from runs.lifecycle.models import Environment, Run, RunKind, RunNote
from runs.lifecycle.queries import current_run, newest_note
from runs.lifecycle.rules import TERMINAL
from runs.lifecycle.services.registry import RunIsOver
from runs.projects.queries import project_for_runs
from web.live.announcements import announce
from web.rules.errors import Conflict, InvalidField, NotFound

# Set fields of a row and describe the changes for its event.

Changes = dict[str, dict[str, Any]]
"""By field: the values `before` and `after`."""


def set_fields(row: Model, values: Mapping[str, Any]) -> Changes:
    """Set fields and return those that changed.

    The caller has locked the row, and saves it.
    """
    changes: Changes = {}
    for name, value in values.items():
        before = getattr(row, name)
        if value != before:
            setattr(row, name, value)
            changes[name] = {"before": before, "after": value}
    return changes


def describe_changes(changes: Changes) -> str:
    """Return changes as one line, by name: ``connected True → False, weight 1.0 → 2.0``."""
    return ", ".join(
        f"{name} {_text(change['before'])} → {_text(change['after'])}"
        for name, change in sorted(changes.items())
    )


def _text(value: object) -> str:
    return "none" if value is None else str(value)


# Change the settings of an environment while its run is active.

CHANGEABLE_OF_ENVIRONMENTS: Final = frozenset(
    {"weight", "min_batch_allocation", "connected", "muted"}
)


class EnvironmentNotFound(NotFound):
    """The run has no such environment."""


@transaction.atomic
def change_environment(
    *,
    run_id: int,
    env_id: int,
    changes: dict[str, Any],
    actor: str,
    reason: str = "",
    now: datetime,
) -> Environment:
    """Set some of :data:`CHANGEABLE` on an environment; an event records the previous values.

    A disconnected environment may still push: its data is accepted, but batches do not wait for it.
    Pushes of a muted environment are counted as dropped; its queued data is still served.

    Raises:
        EnvironmentNotFound: If the run has no environment with this id.
    """
    unknown = sorted(set(changes) - CHANGEABLE_OF_ENVIRONMENTS)
    if unknown:
        raise ValueError(f"{unknown} cannot be changed")
    found = Environment.objects.select_for_update().filter(run_id=run_id, env_id=env_id).first()
    if found is None:
        raise EnvironmentNotFound(f"environment {env_id} not found in this run")
    changed = set_fields(found, changes)
    if not changed:
        return found
    found.save(update_fields=list(changed))
    record_event(
        run_id=run_id,
        kind="environment_changed",
        message=f"{found.wandb_name}: {describe_changes(changed)}",
        actor=actor,
        reason=reason,
        details={"env_id": env_id, **changed},
        now=now,
    )
    announce(run_id, "run", "queue")
    return found


# Change the settings of an active run.

CHANGEABLE: Final = frozenset(
    {
        "advantages",
        "batch_size",
        "drop_zero_variance",
        "ends_at_num_steps",
        "dry_deadline_seconds",
        "exact_queue_size",
        "lease_seconds",
        "lenient",
        "max_age_seconds",
        "max_staleness",
        "num_steps",
        "num_workers",
        "off_policy_tolerance",
        "on_second_registration",
        "overlong_sequences",
        "unscored_sequences",
        "least_group_size",
        "project",
    }
)
# Settings that decide whether a batch of chunks can become complete.
_ADMISSION: Final = ("max_staleness", "off_policy_tolerance", "num_workers")


class NoBatchPossible(InvalidField):
    """The admission limit would prevent every batch."""


_ALWAYS_CHANGEABLE: Final = frozenset({"project"})
"""Settings of :data:`CHANGEABLE` that may change after the run has ended."""


class NoFleet(Conflict):
    """The run has no fleet, so its number of workers cannot change."""

    code = "no_fleet"
    title = "The run has no fleet"


class BatchSizeConfigured(Conflict):
    """The configuration of a run with a fleet sets its batch size."""

    code = "batch_size_configured"
    title = "The batch size is part of the configuration"
    field = "batch_size"


@transaction.atomic
def change_settings(
    *, run_id: int, changes: dict[str, Any], actor: str, reason: str = "", now: datetime
) -> Run:
    """Set some of :data:`CHANGEABLE` on a run; an event records the previous values.

    Raises:
        RunNotFound: If there is no such current run.
        RunIsOver: If the run is completed, stopped or failed, unless only its project changes.
        UnknownProject: If there is no such project.
        ProjectArchived: If the project is archived.
        NoFleet: If `num_workers` is to change and the run has no fleet.
        BatchSizeConfigured: If `batch_size` is to change and the run has a fleet.
        NoBatchPossible: If the changed settings admit too few fragments for a batch.
    """
    unknown = sorted(set(changes) - CHANGEABLE)
    if unknown:
        raise ValueError(f"{unknown} cannot be changed")
    run = current_run(run_id, lock=True)
    if "num_workers" in changes and not run.has_fleet:
        raise NoFleet(f"{run.name} is an outside run without workers")
    if "batch_size" in changes and run.has_fleet:
        raise BatchSizeConfigured(f"fixed by buffer.batch_size in the configuration of {run.name}")
    if run.status in TERMINAL and set(changes) - _ALWAYS_CHANGEABLE:
        raise RunIsOver(f"{run.name} is {run.status}: settings are read-only after a run has ended")
    fields = {name: value for name, value in changes.items() if name != "project"}
    changed = set_fields(run, fields)
    if "project" in changes:
        before, address = run.project, changes["project"]
        is_same = before is not None and address in (before.name, before.uid)
        if not is_same and (before or address is not None):
            run.project = project_for_runs(address, is_locked=True) if address is not None else None
            names = [project and project.name for project in (before, run.project)]
            changed["project"] = {"before": names[0], "after": names[1]}
    if not changed:
        return run
    _check_admission(run, changed)
    run.save(update_fields=list(changed))
    record_event(
        run_id=run.pk,
        kind="settings_changed",
        message=describe_changes(changed),
        actor=actor,
        reason=reason,
        details=changed,
        now=now,
    )
    announce(run.pk, "run", "queue")
    return run


def _check_admission(run: Run, changed: Iterable[str]) -> None:
    """Check that changed settings of a step fleet leave room for a complete batch."""
    field = next((name for name in _ADMISSION if name in changed), None)
    if field is None or run.kind != RunKind.FLEET or run.batch_size is None:
        return
    workers = run.num_workers or run.config["fleet"]["num_workers"]
    shortage = sections.admission_shortage(
        slots=workers * run.config["fleet"]["envs_per_worker"],
        length=sections.replay_of(run.config).fragments_per_chunk,
        batch_size=run.batch_size,
        max_staleness=run.max_staleness,
        off_policy_tolerance=run.off_policy_tolerance,
    )
    if shortage is not None:
        raise NoBatchPossible(field, shortage)


# Edit the notes of runs without lost updates.


class NotesChanged(Conflict):
    """The notes were edited since they were read."""

    code = "notes_changed"
    title = "Edited by another request"
    field = "revision"


@transaction.atomic
def write_notes(
    *, run_id: int, text: str, revision: int, actor: str, reason: str = "", now: datetime
) -> RunNote | None:
    """Set a run's notes and return them; earlier revisions are kept.

    Writing the same text again changes nothing, so the call may be retried.

    Args:
        run_id: A run, which may have ended.
        text: Markdown; empty to clear the notes.
        revision: Revision that the edit is based on; 0 for none.
        actor: Author.
        reason: Reason, recorded in the run's history.
        now: Time of the edit.

    Returns:
        The current notes, or None if there never were any.

    Raises:
        RunNotFound: If there is no such current run.
        NotesChanged: If there is a later revision.
    """
    # Locked, so that the second of two concurrent edits sees the first.
    current_run(run_id, lock=True)
    before = newest_note(run_id)
    if text == (before.text if before else ""):
        return before
    number = before.revision if before else 0
    if number != revision:
        author = before.author if before else "no author"
        raise NotesChanged(
            f"the notes are at revision {number} by {author}; your edit is based on {revision}"
        )
    note = RunNote.objects.create(
        run_id=run_id, revision=number + 1, text=text, author=actor[:ACTOR_LENGTH], at=now
    )
    record_event(
        run_id=run_id,
        kind="notes_edited",
        message=f"notes edited, revision {note.revision}" if text else "notes cleared",
        actor=actor,
        reason=reason,
        details={
            "revision": {"before": number or None, "after": note.revision},
            "letters": {"before": len(before.text) if before else 0, "after": len(text)},
        },
        now=now,
    )
    return note
