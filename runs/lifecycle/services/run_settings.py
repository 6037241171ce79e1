"""Change the settings of an active run."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

from django.db import transaction

from runs.config.rules import replay_config
from runs.events.services import record_event
from runs.lifecycle.models import Run, RunKind
from runs.lifecycle.queries import RunNotFound
from runs.lifecycle.rules import TERMINAL
from runs.lifecycle.services.changed_fields import Changes, describe_changes, set_fields
from runs.lifecycle.services.registry import RunIsOver
from runs.projects.queries import project_for_runs
from web.live.announcements import announce
from web.rules.errors import Conflict, InvalidField

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
    run = Run.objects.current().select_for_update(no_key=True).filter(pk=run_id).first()
    if run is None:
        raise RunNotFound(f"no current run with id {run_id}")
    if "num_workers" in changes and not run.has_fleet:
        raise NoFleet(f"{run.name} is an outside run without workers")
    if "batch_size" in changes and run.has_fleet:
        raise BatchSizeConfigured(f"fixed by buffer.batch_size in the configuration of {run.name}")
    if run.status in TERMINAL and set(changes) - _ALWAYS_CHANGEABLE:
        raise RunIsOver(f"{run.name} is {run.status}: settings are read-only after a run has ended")
    changed = _move(run, changes) | set_fields(run, _without_project(changes))
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
    shortage = replay_config.admission_shortage(
        slots=workers * run.config["fleet"]["envs_per_worker"],
        length=replay_config.replay_of(run.config).fragments_per_chunk,
        batch_size=run.batch_size,
        max_staleness=run.max_staleness,
        off_policy_tolerance=run.off_policy_tolerance,
    )
    if shortage is not None:
        raise NoBatchPossible(field, shortage)


def _without_project(changes: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in changes.items() if name != "project"}


def _move(run: Run, changes: dict[str, Any]) -> Changes:
    """Set the project of a run by name; return the change, empty without one."""
    before = run.project.name if run.project else None
    after = changes.get("project", before)
    if after == before:
        return {}
    run.project = None if after is None else project_for_runs(after, is_locked=True)
    return {"project": {"before": before, "after": after}}
