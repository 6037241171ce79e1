"""Create, launch, control and archive runs.

Each change names its allowed source states, records an event and is announced, in one transaction.
"""

import logging
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import IntegrityError, transaction

from runs.access.models import User
from runs.config.queries import preset_name
from runs.config.rules import run_config
from runs.config.rules.run_config import RunConfig, merged
from runs.config.rules.sections import names_in, search_terms
from runs.config.services import configured
from runs.events.services import record_event
from runs.lifecycle.models import Run, RunKind
from runs.lifecycle.queries import RunNotFound, current_run
from runs.lifecycle.rules import (
    NO_POLICY_STEP,
    TERMINAL,
    VERB_TARGETS,
    MoveNotAllowed,
    RunStatus,
    RunVerb,
    is_run_uid,
    sources_of,
    sources_of_verb,
)
from runs.projects.models import Project
from runs.projects.queries import project_for_runs
from web.live.announcements import announce
from web.rules.errors import Conflict, Invalid
from web.rules.texts import checked

logger = logging.getLogger(__name__)


# Create, launch and control runs.

# Notify other parts of the platform of status changes of runs.

SUBSCRIBERS: Final[list[Callable[[int], object]]] = []
"""Called with the id of a run after each committed change of its status (:mod:`config.readers`).
They must be fast and may fail: subscribers also poll the database.
"""


def notify(run_id: int) -> None:
    """Notify the subscribers after the commit."""

    def call_all() -> None:
        for callback in SUBSCRIBERS:
            try:
                callback(run_id)
            except Exception:
                logger.exception("status subscriber failed for run %d", run_id)

    transaction.on_commit(call_all, robust=True)


# Values of a launch, completed with the defaults of its project.


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchValues:
    """Project, preset, configuration and tags of a launch."""

    project: Project | None
    preset: str
    config: dict[str, Any]
    tags: Iterable[str]


def launch_values(
    *,
    project: str,
    uses_defaults: bool,
    preset: str | None,
    config: dict[str, Any],
    tags: Iterable[str] | None = None,
    is_configured: bool = True,
) -> LaunchValues:
    """Return the values of a launch, completed with the defaults of its project.

    Args:
        project: Name of the project; empty for none.
        uses_defaults: Whether the project's defaults apply.
        preset: Preset of the launch; None for the project's.
        config: Fields of the launch, merged over those of the project.
        tags: Tags of the launch; None for the project's.
        is_configured: Whether the run has a configuration; outside runs have none.

    Raises:
        UnknownProject: If there is no such project.
        ProjectArchived: If the project is archived.
    """
    found = project_for_runs(project) if project else None
    if found is None or not uses_defaults:
        return LaunchValues(project=found, preset=preset or "", config=config, tags=tags or ())
    own_tags = found.tags if tags is None else tags
    if not is_configured:
        return LaunchValues(project=found, preset=preset or "", config=config, tags=own_tags)
    return LaunchValues(
        project=found,
        preset=found.preset if preset is None else preset,
        config=merged(found.config, config),
        tags=own_tags,
    )


# Create runs and change their status.

DEFAULT_RUN_NAME: Final = "default"
# Address of the dashboard's launch form.
FORM_NAME: Final = "new"
NAME = re.compile(r"[a-zA-Z0-9_-]{1,80}")


class RunExists(Conflict):
    """A current run has this name."""

    code = "run_exists"
    title = "Name taken"
    field = "name"


class InvalidRunName(Invalid):
    """The name cannot be part of a URL, or is reserved."""

    field = "name"


class UnexpectedConfig(Invalid):
    """Outside runs have no configuration: their trainer sends it."""

    field = "config"


def create(
    *,
    name: str,
    kind: str = RunKind.FLEET,
    config: dict[str, Any] | None = None,
    preset: str = "",
    project: Project | None = None,
    tags: Iterable[str] = (),
    lenient: bool = False,
    created_by: User | None = None,
    actor: str = "",
    now: datetime,
) -> Run:
    """Create a draft of a run.

    Args:
        name: Unique among current runs; letters, digits, `-` and `_`.
        kind: `fleet`, which becomes `language` if the configuration has lessons, or `outside`.
        config: Fields of a RunConfig that override the preset; not for outside runs.
        preset: Name or id of a preset that `created_by` may see, or empty for the defaults.
        project: Project of the run; its defaults are not applied here.
        tags: Labels for filters.
        lenient: Accept groups with inconsistent lengths or unknown environments.
        created_by: The requesting person, if any.
        actor: Actor of the event, by default `created_by`.
        now: Time of creation.

    Raises:
        InvalidRunName, RunExists: If the name cannot be used; if a current run has it.
        UnknownPreset: If the preset does not exist.
        InvalidRunConfig: If the configuration is invalid; `field` is the path.
        UnexpectedConfig, InvalidTag: If an outside run has a configuration; if a tag is invalid.
        ProjectArchived: If the project was archived meanwhile.
    """
    check_name(name)
    fields: dict[str, Any] = {"kind": kind}
    if kind != RunKind.OUTSIDE:
        fields = _fields_of(configured(preset=preset, config=config or {}, asked_by=created_by))
        preset = preset_name(preset, person=created_by)
    elif config or preset:
        raise UnexpectedConfig("an outside run is configured by its trainer's registration")
    return _insert(
        now=now,
        actor=actor or (f"user:{created_by.get_username()}" if created_by else "platform"),
        name=name,
        preset=preset,
        project=project,
        created_by=created_by,
        tags=checked(tags),
        lenient=lenient,
        **fields,
    )


def check_name(name: str) -> None:
    """Check that a run may have this name.

    Raises:
        InvalidRunName: If it cannot be used.
    """
    if not NAME.fullmatch(name):
        raise InvalidRunName("must be 1 to 80 letters, digits, - or _")
    if name == DEFAULT_RUN_NAME:
        raise InvalidRunName(f"{DEFAULT_RUN_NAME!r} is reserved for the run at the server root")
    if is_run_uid(name):
        raise InvalidRunName("must not have the form of a run's id: run_ and 24 hexadecimal digits")
    if name == FORM_NAME:
        raise InvalidRunName(f"{FORM_NAME!r} is reserved for the launch form")


@transaction.atomic
def create_and_start(*, start: bool, actor: str, now: datetime, **fields: Any) -> Run:
    """Create a run as :func:`create` does and, if `start`, start it, in one transaction."""
    run = create(actor=actor, now=now, **fields)
    if not start:
        return run
    return change_status(run_id=run.pk, verb=RunVerb.START, actor=actor, now=now)


def _fields_of(config: RunConfig) -> dict[str, Any]:
    """Return the columns derived from a configuration."""
    written = run_config.to_builtins(config)
    of_language = {}
    if config.language:
        of_language = {
            "max_token_len": config.language.model.max_position_embeddings,
            "drop_zero_variance": not config.language.keeps_zero_variance,
        }
    return {
        "kind": RunKind.LANGUAGE if config.language else RunKind.FLEET,
        "config": written,
        "environment_words": search_terms(names_in(written)),
        "batch_size": config.buffer.batch_size,
        "max_staleness": config.buffer.max_staleness,
        "off_policy_tolerance": config.buffer.off_policy_tolerance,
        "lease_seconds": config.buffer.lease_seconds,
        "num_steps": config.num_steps,
        "ends_at_num_steps": config.ends_at_num_steps,
        "num_workers": config.fleet.num_workers,
        **of_language,
    }


def open_epoch(run: Run, *, actor: str, now: datetime) -> None:
    """Open an epoch of a run: versions begin again, and are later than all others of its name."""
    run.epoch = max(1, Run.objects.first_epoch(run.name))
    run.policy_step = NO_POLICY_STEP
    run.save(update_fields=["epoch", "policy_step"])
    record_event(
        run_id=run.pk,
        kind="epoch_opened",
        message=f"epoch {run.epoch} opened",
        actor=actor,
        details={"epoch": run.epoch},
        now=now,
    )


def insert_run(*, actor: str, now: datetime, **fields: Any) -> Run:
    """Insert a run with these columns, record it and announce it.

    Raises:
        IntegrityError: If a current run has its name.
    """
    epoch = Run.objects.first_epoch(fields["name"])
    run = Run.objects.create(created_at=now, status_changed_at=now, epoch=epoch, **fields)
    words = f"{run.kind} run created"
    if epoch:
        words += f" in epoch {epoch}, after earlier runs of its name"
    record_event(run_id=run.pk, kind="created", message=words, actor=actor, now=now)
    announce(run.pk, "run")
    return run


@transaction.atomic
def _insert(*, project: Project | None, **fields: Any) -> Run:
    if project is not None:
        # Locked: a project that is being deleted or archived gets no run.
        project = project_for_runs(project.name, is_locked=True)
    try:
        with transaction.atomic():
            return insert_run(project=project, **fields)
    except IntegrityError as error:
        if "run_name_is_taken_once" not in str(error):
            raise
        raise RunExists(f"a run named {fields['name']!r} already exists") from error


@transaction.atomic
def change_status(
    *,
    run_id: int,
    verb: RunVerb,
    actor: str,
    reason: str = "",
    now: datetime,
    deadline_seconds: float = 30,
) -> Run:
    """Apply a verb requested by a person or the platform, and return the changed run.

    `deadline_seconds` limits the drain of a stopping run; draining has no deadline.

    Raises:
        RunNotFound: If there is no such current run.
        MoveNotAllowed: If the run's status does not allow `verb`; the message names both.
    """
    before = current_run(run_id, lock=True)
    target = VERB_TARGETS[verb]
    if verb is RunVerb.START and before.kind == RunKind.OUTSIDE:
        target = RunStatus.RUNNING  # it has no fleet to wait for, and accepts data at once
    drain = {
        RunVerb.DRAIN: (RunStatus.COMPLETED, None),
        RunVerb.STOP: (RunStatus.STOPPED, now + timedelta(seconds=deadline_seconds)),
    }
    drain_target, drain_deadline_at = drain.get(verb, ("", None))
    changed = Run.objects.filter(pk=run_id, status__in=sources_of_verb(verb)).update(
        status=target,
        status_reason=reason,
        status_changed_at=now,
        drain_target=drain_target,
        drain_deadline_at=drain_deadline_at,
        **({"started_at": now} if verb is RunVerb.START else {}),
    )
    if changed != 1:
        raise MoveNotAllowed(f"{before.name} is {before.status}: {verb} is not allowed")
    _emit_change(before, target, actor=actor, reason=reason, verb=verb, now=now)
    return Run.objects.get(pk=run_id)


def end_after_steps(run: Run, *, now: datetime) -> None:
    """Drain a run whose planned train steps are all served; it completes when it is drained."""
    if run.status in sources_of_verb(RunVerb.DRAIN):
        end_run(run.pk, reason=f"all {run.num_steps:,} planned train steps are served", now=now)


def end_run(run_id: int, *, reason: str, now: datetime) -> None:
    """Drain a run that has reached a limit; it completes when it is drained."""
    # A concurrent request may have changed the status meanwhile.
    with suppress(MoveNotAllowed):
        change_status(run_id=run_id, verb=RunVerb.DRAIN, actor="platform", reason=reason, now=now)


@transaction.atomic
def move(*, run_id: int, target: RunStatus, actor: str, reason: str = "", now: datetime) -> bool:
    """Move a run to `target` if its status still allows that; return whether it did.

    For transitions detected by the platform (a fleet is ready, a drain is complete); requests use
    :func:`change_status`.

    Raises:
        RunNotFound: If there is no such current run.
    """
    before = current_run(run_id, lock=True)
    changed = Run.objects.filter(pk=run_id, status__in=sources_of(target)).update(
        status=target,
        status_reason=reason,
        status_changed_at=now,
        drain_target="",
        drain_deadline_at=None,
    )
    if changed != 1:
        return False
    _emit_change(before, target, actor=actor, reason=reason, verb="", now=now)
    return True


def _emit_change(
    before: Run, target: RunStatus, *, actor: str, reason: str, verb: str, now: datetime
) -> None:
    record_event(
        run_id=before.pk,
        kind="status",
        message=f"{before.status} → {target}",
        actor=actor,
        level="error" if target is RunStatus.FAILED else "info",
        reason=reason,
        details={"from": before.status, "to": str(target), "verb": str(verb)},
        now=now,
    )
    announce(before.pk, "run")
    notify(before.pk)


# Archive, unarchive and tag runs.

ARCHIVABLE: Final = frozenset({*TERMINAL, RunStatus.DRAFT})


@transaction.atomic
def archive(*, run_id: int, actor: str, reason: str = "", now: datetime) -> Run:
    """Archive an ended or unstarted run; nothing is deleted.

    This frees its name.

    Raises:
        RunNotFound: If there is no such current run.
        MoveNotAllowed: If the run is active.
    """
    changed = Run.objects.filter(
        pk=run_id, archived_at=None, is_default=False, status__in=ARCHIVABLE
    ).update(archived_at=now)
    if not changed:
        run = current_run(run_id)
        if run.is_default:
            raise MoveNotAllowed(f"{run.name} is the run at the server root: reset it instead")
        raise MoveNotAllowed(
            f"{run.name} is {run.status}: only ended runs and drafts can be archived"
        )
    record_event(
        run_id=run_id, kind="archived", message="archived", actor=actor, reason=reason, now=now
    )
    announce(run_id, "run")
    return Run.objects.get(pk=run_id)


@transaction.atomic
def unarchive(*, run_id: int, actor: str, reason: str = "", now: datetime) -> Run:
    """Restore an archived run to the lists.

    An epoch is opened if another run of its name has had a trainer since: a server with the
    weights of that run would never load the earlier versions of this one.

    Raises:
        RunNotFound: If there is no such archived run.
        RunExists: If a current run has its name.
    """
    try:
        with transaction.atomic():
            changed = Run.objects.filter(pk=run_id, archived_at__isnull=False).update(
                archived_at=None
            )
    except IntegrityError as error:
        raise RunExists("a current run has its name") from error
    if not changed:
        raise RunNotFound(f"no archived run with id {run_id}")
    record_event(
        run_id=run_id, kind="unarchived", message="unarchived", actor=actor, reason=reason, now=now
    )
    run = Run.objects.get(pk=run_id)
    if run.epoch and Run.objects.filter(name=run.name, epoch__gte=run.epoch).exclude(pk=run.pk):
        open_epoch(run, actor=actor, now=now)
    announce(run_id, "run")
    return run


@transaction.atomic
def set_tags(
    *, run_id: int, tags: Iterable[str], actor: str, reason: str = "", now: datetime
) -> Run:
    """Replace the tags of a run, which may have ended.

    Raises:
        RunNotFound: If there is no such current run.
        InvalidTag: If a tag is invalid.
    """
    checked_tags = checked(tags)
    run = current_run(run_id, lock=True)
    if run.tags == checked_tags:
        return run
    before, run.tags = run.tags, checked_tags
    run.save(update_fields=["tags"])
    record_event(
        run_id=run_id,
        kind="tagged",
        message=f"tags: {', '.join(checked_tags) or 'none'}",
        actor=actor,
        reason=reason,
        details={"tags": {"before": before, "after": checked_tags}},
        now=now,
    )
    announce(run_id, "run")
    return run
