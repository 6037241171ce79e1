"""Read runs, their events, notes and waiting environments."""

from collections.abc import Collection
from datetime import datetime
from pathlib import Path
from typing import IO, Any, Final

import msgspec
from django.conf import settings
from django.db.models import Q

from runs.events.models import RunEvent
from runs.lifecycle.models import (
    Environment,
    EnvironmentNumbers,
    PolicyVersion,
    Run,
    RunDeletion,
    RunKind,
    RunNote,
    Trainer,
)
from runs.lifecycle.rules import (
    RunStatus,
    allowed_verbs,
    is_run_uid,
    next_name,
    parse_archived,
    stem_of,
    was_seen_recently,
)
from runs.lifecycle.schemas import (
    DeletionRow,
    EnvironmentRow,
    Event,
    IgnoredNumbers,
    Notes,
    PolicyVersionRow,
    RefusedPushes,
    RunDetail,
    RunInferenceServer,
    RunSummary,
    TrainerRow,
)
from web import sql
from web.rules.errors import NotFound
from web.sql import first_row

# Read the notes of a run.


def newest_note(run_id: int) -> RunNote | None:
    """Return the current notes of a run, or None without notes."""
    return RunNote.objects.filter(run_id=run_id).order_by("-revision").first()


def notes_of(run_id: int) -> Notes:
    """Return the notes of a run."""
    newest = newest_note(run_id)
    if newest is None:
        return Notes(text="", revision=0, author="", at=None)
    names = Notes.__struct_fields__
    return Notes(**{name: getattr(newest, name) for name in names})


# Read the summary fields of a run.


def summary_fields(run: Run) -> dict[str, Any]:
    """Return the fields common to all run schemas."""
    given = {field: getattr(run, field, None) for field in RunSummary.__struct_fields__}
    given["created_by"] = run.created_by.get_username() if run.created_by else None
    given["project"] = run.project.name if run.project else None
    given["project_uid"] = run.project.uid if run.project else None
    given["allowed_verbs"] = [str(verb) for verb in allowed_verbs(RunStatus(run.status))]
    return given


# Selectors: read runs for pages and machines.

EVENTS_PER_PAGE: Final = 200
_ID_NAMED: Final = "SELECT id FROM runs_run WHERE archived_at IS NULL AND"
_SERVED_STEPS: Final = "SELECT served_steps FROM runs_run WHERE id = %s"
_BATCH_SIZE: Final = "SELECT id, batch_size FROM runs_run WHERE archived_at IS NULL AND "
_BATCH_SIZE_OF_GROUPS: Final = f"{_BATCH_SIZE} kind <> '{RunKind.FLEET}' AND"
_BATCH_SIZE_OF_DEFAULT: Final = f"{_BATCH_SIZE} is_default"


class RunNotFound(NotFound):
    """There is no current run with this name."""


class RunArchived(RunNotFound):
    """The run is archived, so it is read-only."""

    status = 409
    code = "run_archived"
    title = "The run is archived"


class RunDeleted(RunNotFound):
    """The run was deleted."""

    code = "run_deleted"
    title = "The run is deleted"


class NoWeights(NotFound):
    """The requested weights do not exist."""

    code = "no_weights"
    title = "No such weights"


class WeightsMissing(NoWeights):
    """The file of a kept policy version is not in the folder of this server."""

    code = "weights_missing"
    title = "Weights file missing"


def current_run(run_id: int, *, lock: bool = False) -> Run:
    """Return a current run; `lock` keeps others from changing it until the transaction ends.

    Raises:
        RunNotFound: If there is no such current run.
    """
    current = Run.objects.current()
    if lock:
        current = current.select_for_update(no_key=True)
    run = current.filter(pk=run_id).first()
    if run is None:
        raise RunNotFound(f"no current run with id {run_id}")
    return run


def run_named(name: str) -> Run:
    """Return the current run with this name or id.

    Raises:
        RunArchived: If only an archived run is at this address.
        RunNotFound: If there is no such run.
    """
    run = _current(name)
    if run is None:
        raise _absence(name)
    return run


def address_column(address: str) -> str:
    """Return the column of runs that has an address: that of their ids, or of their names.

    All lookups of runs use it or :meth:`runs.lifecycle.models.RunQuerySet.at`.
    """
    return "uid" if is_run_uid(address) else "name"


def _current(address: str) -> Run | None:
    return first_row(Run, f"{address_column(address)} = %s AND archived_at IS NULL", [address])


def batch_size_of(name: str | None) -> tuple[int, int | None] | None:
    """Return id and batch size of a current run that takes groups, without loading the run.

    Args:
        name: Its name or id; None for the default run.

    Returns:
        None if there is no such run.
    """
    with sql.cursor() as cursor:
        if name is None:
            return cursor.execute(_BATCH_SIZE_OF_DEFAULT, prepare=True).fetchone()
        query = f"{_BATCH_SIZE_OF_GROUPS} {address_column(name)} = %s"
        return cursor.execute(query, [name], prepare=True).fetchone()


def readable_run(address: str) -> Run:
    """Return the run at an address, current or archived (:mod:`runs.lifecycle.rules`).

    Raises:
        RunDeleted, RunNotFound: If the run was deleted; if there is no such run.
    """
    run = _current(address) or Run.objects.at(address)
    if run is None:
        raise _absence(address)
    return run


def readable_run_id(address: str) -> int:
    """Return the id of the run at an address, current or archived.

    Raises:
        RunNotFound: If there is no such run.
    """
    return readable_run(address).pk


def run_id_named(name: str) -> int:
    """Return the key of the current run with this name or id, without its configuration.

    Raises:
        RunArchived: If only an archived run is at this address.
        RunNotFound: If there is no such run.
    """
    with sql.cursor() as cursor:
        query = f"{_ID_NAMED} {address_column(name)} = %s"
        row = cursor.execute(query, [name], prepare=True).fetchone()
    if row is None:
        raise _absence(name)
    return int(row[0])


def _absence(name: str) -> RunNotFound:
    """Return the error for an address without a current run."""
    run = Run.objects.at(name)
    if run is None:
        return _deleted(name) or RunNotFound(f"run {name!r} not found")
    if run.archived_at is None:
        return RunNotFound(f"run {name!r} not found")
    return RunArchived(
        f"run {run.name!r} was archived on {run.archived_at:%Y-%m-%d at %H:%M} UTC and is"
        f" read-only; unarchive it (id {run.pk}) to change it"
    )


def _deleted(address: str) -> RunDeleted | None:
    """Return the error for the address of a deleted run, or None."""
    deletions, archived = RunDeletion.objects.order_by("-id"), parse_archived(address)
    deletion = deletions.filter(Q(name=address) | Q(run_uid=address)).first()
    if deletion is None and archived is not None:
        deletion = deletions.filter(name=archived.name, run_number=archived.run_id).first()
    if deletion is None:
        return None
    return RunDeleted(
        f"run {deletion.name!r} was deleted on {deletion.requested_at:%Y-%m-%d at %H:%M} UTC"
    )


def deletions(*, before: int | None = None, limit: int = 50) -> list[DeletionRow]:
    """Return deletions of runs older than deletion `before`, newest first."""
    found = RunDeletion.objects.order_by("-id")
    if before is not None:
        found = found.filter(id__lt=before)
    return [deletion_row(row) for row in found[:limit]]


def deletion_row(deletion: RunDeletion) -> DeletionRow:
    """Return a deletion for the API."""
    own = {f: getattr(deletion, f) for f in DeletionRow.__struct_fields__ if f != "run"}
    return DeletionRow(**own, run=deletion.name)


def served_steps(run_id: int) -> int:
    """Return the number of batches served by a run; 0 if it does not exist."""
    with sql.cursor() as cursor:
        row = cursor.execute(_SERVED_STEPS, [run_id], prepare=True).fetchone()
    return 0 if row is None else int(row[0])


def run_detail(run: Run) -> RunDetail:
    """Return a run with its configuration."""
    name = (run.config.get("language") or {}).get("inference", "")
    offered = settings.ROLLDECK_INFERENCE_SERVERS.get(name)
    server = None if offered is None else RunInferenceServer(kind=offered.kind, port=offered.port)
    return RunDetail(**summary_fields(run), config=run.config, inference_server=server)


def run_part(run_id: int) -> RunDetail | None:
    """Return a run for its live page."""
    run = Run.objects.select_related("created_by", "project").filter(pk=run_id).first()
    return None if run is None else run_detail(run)


def _event(event: RunEvent) -> Event:
    return Event(**{field: getattr(event, field) for field in Event.__struct_fields__})


def events(
    *, run_id: int, before: int | None = None, limit: int = 100, kinds: Collection[str] = ()
) -> list[Event]:
    """Return events of a run older than event `before`, newest first, optionally by kind."""
    found = RunEvent.objects.filter(run_id=run_id).order_by("-id")
    if kinds:
        found = found.filter(kind__in=kinds)
    if before is not None:
        found = found.filter(id__lt=before)
    return [_event(event) for event in found[:limit]]


def event_series(run_id: int, after_id: int | None, limit: int) -> list[Event]:
    """Return a run's events, oldest first, after `after_id`, or the newest ones."""
    if after_id is None:
        return events(run_id=run_id, limit=min(limit, EVENTS_PER_PAGE))[::-1]
    rows = RunEvent.objects.filter(run_id=run_id, id__gt=after_id).order_by("id")[:limit]
    return [_event(event) for event in rows]


def environments(*, run_id: int, now: datetime) -> list[EnvironmentRow]:
    """Return a run's environments in order of registration."""
    found = Environment.objects.filter(run_id=run_id).order_by("env_id")
    numbers = {row.environment: row for row in EnvironmentNumbers.objects.filter(run_id=run_id)}
    return [_environment_row(row, numbers.get(row.desired_name), now=now) for row in found]


def environment_row(row: Environment, *, now: datetime) -> EnvironmentRow:
    """Return an environment for the API."""
    numbers = EnvironmentNumbers.objects.filter(run=row.run_id, environment=row.desired_name)
    return _environment_row(row, numbers.first(), now=now)


def _environment_row(
    row: Environment, numbers: EnvironmentNumbers | None, *, now: datetime
) -> EnvironmentRow:
    """Return an environment for the API; one without recent calls is not connected."""
    found = numbers or EnvironmentNumbers()
    computed: dict[str, Any] = {
        "refused": msgspec.convert(row.refused or {}, dict[str, RefusedPushes]),
        "connected": row.connected and was_seen_recently(row.last_seen_at, now=now),
        "numbers": len(found.keys),
        "ignored_numbers": msgspec.convert(found.ignored, dict[str, IgnoredNumbers]),
    }
    stored = [name for name in EnvironmentRow.__struct_fields__ if name not in computed]
    return EnvironmentRow(**{name: getattr(row, name) for name in stored}, **computed)


def trainers(*, run_id: int) -> list[TrainerRow]:
    """Return a run's trainers in order of their first registration."""
    found = Trainer.objects.filter(run_id=run_id).order_by("id")
    return [
        TrainerRow(**{f: getattr(row, f) for f in TrainerRow.__struct_fields__}) for row in found
    ]


def current_weights(*, run: Run) -> PolicyVersion:
    """Return the newest policy version of the run's epoch.

    Raises:
        NoWeights: If none was published in this epoch.
    """
    return weights(run=run, epoch=run.epoch, step=run.policy_step)


def weights(*, run: Run, epoch: int, step: int) -> PolicyVersion:
    """Return one policy version.

    Raises:
        NoWeights: If it was never published.
    """
    version = PolicyVersion.objects.filter(run=run, epoch=epoch, step=step).first()
    if version is None:
        raise NoWeights(f"{run.name} has no version {epoch}.{step}")
    return version


def policy_versions(
    *, run_id: int, before: int | None = None, only: int | None = None, limit: int = 50
) -> list[PolicyVersionRow]:
    """Return a run's published versions, newest first.

    Args:
        run_id: Id of the run.
        before: Only versions with a smaller id.
        only: Id of a single version; None for all.
        limit: Maximum number of versions.
    """
    found = PolicyVersion.objects.filter(run_id=run_id).defer("manifest").select_related("trainer")
    if before is not None:
        found = found.filter(id__lt=before)
    if only is not None:
        found = found.filter(id=only)
    return [
        PolicyVersionRow(
            id=row.pk,
            epoch=row.epoch,
            step=row.step,
            sha256=row.sha256,
            size_bytes=row.size_bytes,
            published_at=row.published_at,
            trainer=str(row.trainer.name or row.trainer.identity) if row.trainer else None,
            has_file=bool(row.file),
        )
        for row in found.order_by("-id")[:limit]
    ]


def weights_directory(run: Run) -> str:
    """Return the shared folder of the run's weights; empty if they are uploaded."""
    transport = (run.config or {}).get("fleet", {}).get("weights_transport", "http")
    root = settings.ROLLDECK_WEIGHTS_DIRECTORY
    if transport != "directory" or not root:
        return ""
    # An archived run's name may be reused; the time of creation makes the folder unique.
    return str(Path(root, f"{run.name}-{run.created_at:%Y%m%dT%H%M%S%f}"))


def weights_file(version: PolicyVersion) -> IO[bytes]:
    """Return the open file of a policy version.

    Raises:
        NoWeights: If newer versions have evicted it.
        WeightsMissing: If it should be there.
    """
    gone = f"the file of version {version} has been evicted"
    if not version.file:
        raise NoWeights(gone)
    try:
        return version.file.storage.open(str(version.file.name))
    except FileNotFoundError as error:
        if not PolicyVersion.objects.filter(pk=version.pk).exclude(file="").exists():
            raise NoWeights(gone) from error
        raise WeightsMissing(
            f"the file {version.file.name} of version {version} was not evicted, but is not in "
            "ROLLDECK_VAR/media of this server"
        ) from error


def suggested_name(name: str) -> str:
    """Return a free name for a run: the given name with the next number, archived runs included."""
    stem = stem_of(name)
    names = Run.objects.filter(name__startswith=f"{stem}-").values_list("name", flat=True)
    return next_name(stem, names.distinct())
